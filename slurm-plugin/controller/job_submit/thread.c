#include "thread.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

enum { JOIN_SECONDS = 3 };

int
thread_start (pthread_t *thread, const char *name, void *(*run) (void *), void *data)
{
	sigset_t all, before;
	sigfillset (&all);
	pthread_sigmask (SIG_SETMASK, &all, &before);
	int error = pthread_create (thread, NULL, run, data);
	pthread_sigmask (SIG_SETMASK, &before, NULL);
	if (error)
		return -1;
	pthread_setname_np (*thread, name);
	return 0;
}

int
thread_join (pthread_t thread)
{
	struct timespec limit;
	clock_gettime (CLOCK_REALTIME, &limit);
	limit.tv_sec += JOIN_SECONDS;
	return pthread_timedjoin_np (thread, NULL, &limit) == 0 ? 0 : -1;
}

int
thread_sleep (int stop_fd, int wake_fd, int milliseconds)
{
	struct pollfd fds[] = {
		{ .fd = stop_fd, .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
	};
	return poll (fds, 2, milliseconds) > 0 && fds[0].revents != 0;
}

int64_t
thread_milliseconds (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return now.tv_sec * (int64_t)1000 + now.tv_nsec / 1000000;
}
