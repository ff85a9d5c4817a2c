#include "timers.h"

#include "libc.h"
#include "next.h"
#include "process.h"

enum { TIMERS = 64 };

/* Those of timer_settime; until: CLOCK_MONOTONIC, FOR_EVER where it repeats or is of a time
 * of day. */
static struct timer {
	uint64_t name; /* 0: none */
	uint64_t until;
} timers[TIMERS];
static const uint64_t for_ever = UINT64_MAX;
static uint32_t owner;	     /* a child begins without timers */
static uint32_t are_unknown; /* there were too many at a time */

/* A number or a pointer, and 0 is one of them. */
static uint64_t
name_of (timer_t timer)
{
	return (uint64_t)(uintptr_t)timer + 1;
}

static uint64_t
now_ns (void)
{
	struct timespec now;
	LIBC (clock_gettime) (CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int
is_own (void)
{
	return LOAD (owner) == (uint32_t)SYSTEM_CALL (getpid);
}

static void
forget_all (void)
{
	for (int i = 0; i < TIMERS; i++)
		STORE (timers[i].name, 0);
	STORE (are_unknown, 0);
	STORE (owner, (uint32_t)SYSTEM_CALL (getpid));
}

static void
forget (timer_t timer)
{
	for (int i = 0; i < TIMERS; i++)
		if (LOAD (timers[i].name) == name_of (timer))
			STORE (timers[i].name, 0);
}

static void
keep (timer_t timer, uint64_t until)
{
	uint64_t now = now_ns ();

	for (int i = 0; i < TIMERS; i++) {
		uint64_t name = LOAD (timers[i].name);
		if (name && LOAD (timers[i].until) > now)
			continue;
		if (!__atomic_compare_exchange_n (&timers[i].name, &name, name_of (timer),
						  0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		STORE (timers[i].until, until);
		return;
	}
	STORE (are_unknown, 1);
}

static uint64_t
expiry_of (int flags, const struct itimerspec *value)
{
	const struct timespec *first = &value->it_value;

	if (flags & TIMER_ABSTIME || value->it_interval.tv_sec || value->it_interval.tv_nsec
	    || first->tv_sec > 1000000000)
		return for_ever;
	return now_ns () + (uint64_t)first->tv_sec * 1000000000 + (uint64_t)first->tv_nsec;
}

EXPORT int
timer_settime (timer_t timer, int flags, const struct itimerspec *value,
	       struct itimerspec *before)
{
	int done = NEXT (timer_settime) (timer, flags, value, before);

	if (done < 0)
		return done;
	if (!is_own ())
		forget_all ();
	forget (timer);
	if (value->it_value.tv_sec || value->it_value.tv_nsec)
		keep (timer, expiry_of (flags, value));
	return done;
}

EXPORT int
timer_delete (timer_t timer)
{
	forget (timer);
	return NEXT (timer_delete) (timer);
}

int
timers_are_set (uint64_t now)
{
	struct itimerval alarm;

	if (SYSTEM_CALL (getitimer, ITIMER_REAL, &alarm) == 0
	    && (alarm.it_value.tv_sec || alarm.it_value.tv_usec))
		return 1;
	if (!LOAD (owner) || !is_own ())
		return 0;
	for (int i = 0; i < TIMERS; i++)
		if (LOAD (timers[i].name) && LOAD (timers[i].until) > now)
			return 1;
	return LOAD (are_unknown);
}
