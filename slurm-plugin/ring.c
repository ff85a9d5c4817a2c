#include "ring.h"

#include <stdlib.h>
#include <string.h>

void
ring_init (struct ring *ring)
{
	memset (ring, 0, sizeof *ring);
	pthread_mutex_init (&ring->lock, NULL);
}

void
ring_destroy (struct ring *ring)
{
	free (ring->slots);
	pthread_mutex_destroy (&ring->lock);
}

int
ring_reserve (struct ring *ring, uint32_t size)
{
	if (ring->slots)
		return 0;
	struct sluice_record *slots = sluice_allocate (size * sizeof *slots);
	if (!slots)
		return -1;
	/* touch every page now and not in job_submit */
	memset (slots, 0xff, size * sizeof *slots);

	pthread_mutex_lock (&ring->lock);
	ring->slots = slots;
	ring->size = size;
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

void
ring_push (struct ring *ring, struct sluice_record *record)
{
	pthread_mutex_lock (&ring->lock);
	record->number = ++ring->last;
	if (ring->written - ring->removed < ring->size)
		ring->slots[ring->written++ % ring->size] = *record;
	else
		ring->dropped++;
	pthread_mutex_unlock (&ring->lock);
}

/* Numbers rise, so a binary search keeps the lock short. */
void
ring_acknowledge (struct ring *ring, uint64_t number)
{
	pthread_mutex_lock (&ring->lock);
	uint64_t low = ring->removed, high = ring->written;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (ring->slots[middle % ring->size].number <= number)
			low = middle + 1;
		else
			high = middle;
	}
	ring->removed = low;
	pthread_mutex_unlock (&ring->lock);
}

const struct sluice_record *
ring_oldest (struct ring *ring, uint32_t skip, uint32_t max, uint32_t *count)
{
	const struct sluice_record *first = NULL;

	*count = 0;
	pthread_mutex_lock (&ring->lock);
	uint64_t used = ring->written - ring->removed;
	if (skip < used) {
		uint32_t start = (uint32_t)((ring->removed + skip) % ring->size);
		uint64_t n = used - skip;
		if (n > max)
			n = max;
		if (n > ring->size - start)
			n = ring->size - start;
		*count = (uint32_t)n;
		first = ring->slots + start;
	}
	pthread_mutex_unlock (&ring->lock);
	return first;
}

struct ring_state
ring_state (struct ring *ring)
{
	pthread_mutex_lock (&ring->lock);
	struct ring_state state = {
		.size = ring->size,
		.used = (uint32_t)(ring->written - ring->removed),
		.last = ring->last,
		.dropped = ring->dropped,
	};
	pthread_mutex_unlock (&ring->lock);
	return state;
}
