#include "ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

void
ring_init (struct ring *ring)
{
	memset (ring, 0, sizeof *ring);
	pthread_mutex_init (&ring->lock, NULL);
	pthread_mutex_init (&ring->reader_lock, NULL);
	ring->pushed_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void
ring_destroy (struct ring *ring)
{
	free (ring->slots);
	pthread_mutex_destroy (&ring->lock);
	pthread_mutex_destroy (&ring->reader_lock);
	if (ring->pushed_fd >= 0)
		close (ring->pushed_fd);
}

int
ring_reserve (struct ring *ring)
{
	if (ring->slots)
		return 0;
	struct sluice_record *slots = sluice_allocate (RING_RECORDS * sizeof *slots);
	if (!slots)
		return -1;
	/* touch every page now and not in job_submit */
	memset (slots, 0xff, RING_RECORDS * sizeof *slots);

	pthread_mutex_lock (&ring->lock);
	ring->slots = slots;
	ring->size = RING_RECORDS;
	pthread_mutex_unlock (&ring->lock);
	return 0;
}

void
ring_expect (struct ring *ring)
{
	enum { CACHE_LINE = 64 };
	pthread_mutex_lock (&ring->lock);
	if (ring->size > 0) {
		const char *slot = (const char *)&ring->slots[ring->written % ring->size];
		for (size_t i = 0; i < sizeof *ring->slots; i += CACHE_LINE)
			__builtin_prefetch (slot + i, 1);
	}
	pthread_mutex_unlock (&ring->lock);
}

/* The caller holds the lock. */
static int
put_in (struct ring *ring, const struct sluice_record *record)
{
	if (ring->written - ring->removed >= ring->size)
		return -1;
	ring->slots[ring->written++ % ring->size] = *record;
	return 0;
}

void
ring_push (struct ring *ring, struct sluice_record *record)
{
	pthread_mutex_lock (&ring->lock);
	record->number = ++ring->last;
	if (put_in (ring, record) != 0)
		ring->dropped++;
	pthread_mutex_unlock (&ring->lock);
	/* a call of the kernel: not for each of many records */
	if (ring->is_awaited && atomic_exchange (&ring->is_awaited, 0))
		eventfd_write (ring->pushed_fd, 1);
}

void
ring_inherit (struct ring *ring, const struct sluice_record *record)
{
	pthread_mutex_lock (&ring->lock);
	if (put_in (ring, record) != 0)
		ring->lost++;
	pthread_mutex_unlock (&ring->lock);
}

void
ring_add_losses (struct ring *ring, uint64_t dropped, uint64_t lost)
{
	pthread_mutex_lock (&ring->lock);
	ring->dropped += dropped;
	ring->lost += lost;
	pthread_mutex_unlock (&ring->lock);
}

/* No other takes records out, and those in the ring do not change: so they are
 * looked at without the lock, which job_submit may want. */
void
ring_acknowledge (struct ring *ring, uint64_t boot, uint64_t number)
{
	struct ring_state state = ring_state (ring);
	uint64_t place = state.removed;

	for (; place < state.written; place++) {
		const struct sluice_record *record = &ring->slots[place % state.size];
		if (record->boot != boot || record->number > number)
			break;
	}
	pthread_mutex_lock (&ring->reader_lock);
	pthread_mutex_lock (&ring->lock);
	ring->removed = place;
	pthread_mutex_unlock (&ring->lock);
	pthread_mutex_unlock (&ring->reader_lock);
}

uint32_t
ring_of_one_boot (struct ring *ring, uint32_t max, uint64_t *boot)
{
	struct ring_state state = ring_state (ring);
	uint32_t n = 0;

	for (; n < max && n < state.used; n++) {
		uint64_t its = ring->slots[(state.removed + n) % state.size].boot;
		if (n == 0)
			*boot = its;
		if (its != *boot)
			break;
	}
	return n;
}

const struct sluice_record *
ring_oldest (struct ring *ring, uint32_t skip, uint32_t max, uint32_t *count)
{
	struct ring_state state = ring_state (ring);

	*count = 0;
	if (skip >= state.used)
		return NULL;
	uint32_t start = (uint32_t)((state.removed + skip) % state.size);
	uint32_t n = state.used - skip;
	if (n > max)
		n = max;
	if (n > state.size - start)
		n = state.size - start;
	*count = n;
	return ring->slots + start;
}

int
ring_copy (struct ring *ring, uint64_t place, struct sluice_record *out)
{
	pthread_mutex_lock (&ring->reader_lock);
	int is_there = place >= ring->removed;
	if (is_there)
		*out = ring->slots[place % ring->size];
	pthread_mutex_unlock (&ring->reader_lock);
	return is_there ? 0 : -1;
}

struct ring_state
ring_state (struct ring *ring)
{
	pthread_mutex_lock (&ring->lock);
	struct ring_state state = {
		.size = ring->size,
		.used = (uint32_t)(ring->written - ring->removed),
		.written = ring->written,
		.removed = ring->removed,
		.last = ring->last,
		.dropped = ring->dropped,
		.lost = ring->lost,
	};
	pthread_mutex_unlock (&ring->lock);
	return state;
}
