#include "doorman.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* First in, first out; a ring. */
struct queue {
	struct visitor *waiting[DOORMAN_QUEUE];
	uint32_t first, count;
};

struct doorman {
	struct session_munge munge;
	int fd;
	pthread_mutex_t lock;
	pthread_cond_t arrived;
	struct queue in, out;
	uint32_t inside; /* in a queue, or being checked */
};

static void
push (struct queue *queue, struct visitor *visitor)
{
	queue->waiting[(queue->first + queue->count++) % DOORMAN_QUEUE] = visitor;
}

static struct visitor *
pop (struct queue *queue)
{
	if (queue->count == 0)
		return NULL;
	struct visitor *visitor = queue->waiting[queue->first];
	queue->first = (queue->first + 1) % DOORMAN_QUEUE;
	queue->count--;
	return visitor;
}

static struct visitor *
await (struct doorman *doorman)
{
	struct visitor *visitor;
	pthread_mutex_lock (&doorman->lock);
	while (!(visitor = pop (&doorman->in)))
		pthread_cond_wait (&doorman->arrived, &doorman->lock);
	pthread_mutex_unlock (&doorman->lock);
	return visitor;
}

static void
check (const struct session_munge *munge, struct visitor *visitor)
{
	struct session_credential hello = visitor->credential;
	visitor->is_welcome = session_welcome (munge, &hello, &visitor->keys,
					       &visitor->credential, &visitor->error)
			      == 0;
}

static void *
run (void *data)
{
	struct doorman *doorman = data;
	const uint64_t one = 1;
	for (;;) {
		struct visitor *visitor = await (doorman);
		check (&doorman->munge, visitor);
		pthread_mutex_lock (&doorman->lock);
		push (&doorman->out, visitor);
		pthread_mutex_unlock (&doorman->lock);
		if (write (doorman->fd, &one, sizeof one) < 0)
			continue; /* it is readable already */
	}
	return NULL;
}

int
doorman_start (const struct session_munge *munge, struct doorman **out,
	       struct sluice_error *err)
{
	struct doorman *doorman = calloc (1, sizeof *doorman);
	pthread_t thread;
	int error;
	if (!doorman || (doorman->fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		return sluice_fail (err, "doorman: %s", strerror (errno));
	doorman->munge = *munge;
	pthread_mutex_init (&doorman->lock, NULL);
	pthread_cond_init (&doorman->arrived, NULL);
	for (int i = 0; i < DOORMAN_THREADS; i++)
		if ((error = pthread_create (&thread, NULL, run, doorman)) != 0)
			return sluice_fail (err, "no thread: %s", strerror (error));
	*out = doorman;
	return 0;
}

int
doorman_fd (const struct doorman *doorman)
{
	return doorman->fd;
}

int
doorman_ask (struct doorman *doorman, uint64_t ticket,
	     const struct session_credential *hello)
{
	struct visitor *visitor = calloc (1, sizeof *visitor);
	int has_room = 0;
	if (!visitor)
		return -1;
	visitor->ticket = ticket;
	visitor->credential = *hello;
	pthread_mutex_lock (&doorman->lock);
	if ((has_room = doorman->inside < DOORMAN_QUEUE)) {
		doorman->inside++;
		push (&doorman->in, visitor);
		pthread_cond_signal (&doorman->arrived);
	}
	pthread_mutex_unlock (&doorman->lock);
	if (!has_room)
		free (visitor);
	return has_room ? 0 : -1;
}

struct visitor *
doorman_next (struct doorman *doorman)
{
	uint64_t count;
	pthread_mutex_lock (&doorman->lock);
	if (doorman->out.count == 0 && read (doorman->fd, &count, sizeof count) < 0)
		count = 0;
	struct visitor *visitor = pop (&doorman->out);
	doorman->inside -= visitor != NULL;
	pthread_mutex_unlock (&doorman->lock);
	return visitor;
}
