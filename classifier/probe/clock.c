#include "clock.h"

#include <errno.h>
#include <time.h>

static double offset; /* of the wall clock from the monotonic one, s */

static double
seconds (clockid_t clock)
{
	struct timespec now;

	clock_gettime (clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void
clock_init (void)
{
	offset = seconds (CLOCK_REALTIME) - seconds (CLOCK_MONOTONIC);
}

double
clock_now (void)
{
	return seconds (CLOCK_MONOTONIC) + offset;
}

void
clock_wait (double until)
{
	double then = until - offset;
	struct timespec wake = { .tv_sec = (time_t)then };

	if (then < 0)
		return;
	wake.tv_nsec = (long)((then - (double)wake.tv_sec) * 1e9);
	while (clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
		;
}
