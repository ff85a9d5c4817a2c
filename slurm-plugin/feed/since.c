#include "since.h"

#include <math.h>

enum { LONGEST = 20 }; /* seconds between two answers that tell all */

static double
clock_seconds (clockid_t clock)
{
	struct timespec now;
	clock_gettime (clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double
clock_offset (void)
{
	return clock_seconds (CLOCK_REALTIME) - clock_seconds (CLOCK_MONOTONIC);
}

time_t
since_ask (const struct since *since)
{
	double passed = clock_seconds (CLOCK_MONOTONIC) - since->asked;
	double stepped = fabs (clock_offset () - since->offset);
	return passed >= LONGEST || stepped > 0.5 ? 0 : since->last_update;
}

void
since_told (struct since *since, time_t last_update)
{
	since->last_update = last_update;
	since->asked = clock_seconds (CLOCK_MONOTONIC);
	since->offset = clock_offset ();
}
