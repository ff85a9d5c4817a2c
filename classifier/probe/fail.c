#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* _exit: what stdio buffers belongs to the process that was forked from. */

void
fail (const char *subject, const char *what)
{
	fprintf (stderr, "sluice-probe: %s: %s: %s\n", subject, what, strerror (errno));
	_exit (EXIT_IO);
}

void
give_up (enum exit_code code, const char *format, ...)
{
	va_list arguments;
	char text[8192];

	va_start (arguments, format);
	vsnprintf (text, sizeof text, format, arguments);
	va_end (arguments);
	/* At once: the other processes may be saying the same. */
	fprintf (stderr, "sluice-probe: %s\n", text);
	_exit (code);
}
