#include "lease.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int leased = -1, is_broken;
static sigset_t breaks;

static void *
give_back (void *data)
{
	int number;

	for (;;) {
		if (sigwait (&breaks, &number) != 0)
			continue;
		pthread_mutex_lock (&lock);
		is_broken = 1; /* before the writer goes on */
		if (leased >= 0)
			fcntl (leased, F_SETLEASE, F_UNLCK);
		pthread_mutex_unlock (&lock);
	}
	return data;
}

int
lease_start (void)
{
	pthread_t thread;

	sigemptyset (&breaks);
	sigaddset (&breaks, SIGIO);
	pthread_sigmask (SIG_BLOCK, &breaks, NULL);
	errno = pthread_create (&thread, NULL, give_back, NULL);
	return errno ? -1 : 0;
}

enum lease_result
lease_take (int fd)
{
	pthread_mutex_lock (&lock);
	is_broken = 0;
	int error = fcntl (fd, F_SETLEASE, F_RDLCK) == 0 ? 0 : errno;
	leased = error ? -1 : fd;
	pthread_mutex_unlock (&lock);
	if (error == 0)
		return LEASE_GRANTED;
	return error == EAGAIN ? LEASE_REFUSED : LEASE_UNKNOWN;
}

int
lease_is_broken (void)
{
	pthread_mutex_lock (&lock);
	int result = is_broken;
	pthread_mutex_unlock (&lock);
	return result;
}

void
lease_drop (void)
{
	pthread_mutex_lock (&lock);
	if (leased >= 0)
		fcntl (leased, F_SETLEASE, F_UNLCK);
	leased = -1;
	pthread_mutex_unlock (&lock);
}
