/* Gives the wall clock of the processes that preload it an offset, which may step
 * meanwhile.
 *
 * The offset lies in a file of eight bytes that CHAOS_CLOCK names, mapped by all. Only what
 * tells the wall clock, or waits until it tells a time, is changed: as on a machine whose
 * clock steps.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step; /* seconds */

__attribute__ ((constructor)) static void
take_clock (void)
{
	const char *path = getenv ("CHAOS_CLOCK");
	int fd = path ? open (path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *map = mmap (NULL, sizeof *step, PROT_READ, MAP_SHARED, fd, 0);
	close (fd);
	if (map != MAP_FAILED)
		step = map;
}

static int64_t
offset (void)
{
	return step ? *step : 0;
}

int
clock_gettime (clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall (SYS_clock_gettime, clock, now);
	if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += offset ();
	return rc;
}

time_t
time (time_t *out)
{
	struct timespec now;
	clock_gettime (CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

int
gettimeofday (struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime (CLOCK_REALTIME, &now);
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return 0;
}

int
pthread_cond_timedwait (pthread_cond_t *condition, pthread_mutex_t *mutex,
			const struct timespec *until)
{
	static int (*real) (pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	if (!real)
		*(void **)&real
		    = dlvsym (RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	struct timespec true_time = *until;
	true_time.tv_sec -= offset ();
	return real (condition, mutex, &true_time);
}
