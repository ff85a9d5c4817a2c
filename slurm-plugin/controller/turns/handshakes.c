#include "handshakes.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* First in, first out; a ring. */
struct queue {
	struct handshake *waiting[HANDSHAKES_QUEUE];
	uint32_t first, count;
};

struct handshakes {
	struct session_munge munge;
	int fd;
	pthread_mutex_t lock;
	pthread_cond_t arrived;
	struct queue in, out;
	uint32_t inside; /* in a queue, or being checked */
};

static void
push (struct queue *queue, struct handshake *handshake)
{
	queue->waiting[(queue->first + queue->count++) % HANDSHAKES_QUEUE] = handshake;
}

static struct handshake *
pop (struct queue *queue)
{
	if (queue->count == 0)
		return NULL;
	struct handshake *handshake = queue->waiting[queue->first];
	queue->first = (queue->first + 1) % HANDSHAKES_QUEUE;
	queue->count--;
	return handshake;
}

static struct handshake *
await (struct handshakes *handshakes)
{
	struct handshake *handshake;
	pthread_mutex_lock (&handshakes->lock);
	while (!(handshake = pop (&handshakes->in)))
		pthread_cond_wait (&handshakes->arrived, &handshakes->lock);
	pthread_mutex_unlock (&handshakes->lock);
	return handshake;
}

static void
check (const struct session_munge *munge, struct handshake *handshake)
{
	struct session_credential hello = handshake->credential;
	handshake->is_valid = session_welcome (munge, &hello, &handshake->keys,
					       &handshake->credential, &handshake->error)
			      == 0;
}

static void *
run (void *data)
{
	struct handshakes *handshakes = data;
	const uint64_t one = 1;
	for (;;) {
		struct handshake *handshake = await (handshakes);
		check (&handshakes->munge, handshake);
		pthread_mutex_lock (&handshakes->lock);
		push (&handshakes->out, handshake);
		pthread_mutex_unlock (&handshakes->lock);
		if (write (handshakes->fd, &one, sizeof one) < 0)
			continue; /* it is readable already */
	}
	return NULL;
}

int
handshakes_start (const struct session_munge *munge, struct handshakes **out,
		  struct sluice_error *err)
{
	struct handshakes *handshakes = calloc (1, sizeof *handshakes);
	pthread_t thread;
	int error;
	if (!handshakes || (handshakes->fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		return sluice_fail (err, "handshakes: %s", strerror (errno));
	handshakes->munge = *munge;
	pthread_mutex_init (&handshakes->lock, NULL);
	pthread_cond_init (&handshakes->arrived, NULL);
	for (int i = 0; i < HANDSHAKES_THREADS; i++)
		if ((error = pthread_create (&thread, NULL, run, handshakes)) != 0)
			return sluice_fail (err, "no thread: %s", strerror (error));
	*out = handshakes;
	return 0;
}

int
handshakes_fd (const struct handshakes *handshakes)
{
	return handshakes->fd;
}

int
handshakes_check (struct handshakes *handshakes, uint64_t ticket,
		  const struct session_credential *hello)
{
	struct handshake *handshake = calloc (1, sizeof *handshake);
	int has_room = 0;
	if (!handshake)
		return -1;
	handshake->ticket = ticket;
	handshake->credential = *hello;
	pthread_mutex_lock (&handshakes->lock);
	if ((has_room = handshakes->inside < HANDSHAKES_QUEUE)) {
		handshakes->inside++;
		push (&handshakes->in, handshake);
		pthread_cond_signal (&handshakes->arrived);
	}
	pthread_mutex_unlock (&handshakes->lock);
	if (!has_room)
		free (handshake);
	return has_room ? 0 : -1;
}

struct handshake *
handshakes_next (struct handshakes *handshakes)
{
	uint64_t count;
	pthread_mutex_lock (&handshakes->lock);
	if (handshakes->out.count == 0 && read (handshakes->fd, &count, sizeof count) < 0)
		count = 0;
	struct handshake *handshake = pop (&handshakes->out);
	handshakes->inside -= handshake != NULL;
	pthread_mutex_unlock (&handshakes->lock);
	return handshake;
}
