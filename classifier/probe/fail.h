/* How the probe gives up: a line on stderr, and an exit code that says why. */
#ifndef SLUICE_PROBE_FAIL_H
#define SLUICE_PROBE_FAIL_H

/*
 * Wall-clock time that does not jump: seconds since the epoch, by the machine's
 * monotonic clock. Slices of several nodes can be laid side by side, and an
 * adjustment of the clock during a run does not stretch any of them.
 */

/* Once, before any process is started. */
void clock_init (void);

double clock_now (void);

/* Sleep until then; returns at once when it has passed. */
void clock_wait (double until);

enum exit_code {
	EXIT_IO = 1,	/* an operation failed */
	EXIT_USAGE = 2, /* the command line makes no sense */
	EXIT_FULL = 3,	/* it would have filled a file system */
	EXIT_LATE = 4,	/* the instant of --start has passed */
	EXIT_SIGNAL = 128,
};

/* End this process: "sluice-probe: SUBJECT: WHAT: " and the text of errno. */
_Noreturn void fail (const char *subject, const char *what);

/* End this process with the code; the text is printf's. */
_Noreturn void __attribute__ ((format (printf, 2, 3)))
give_up (enum exit_code code, const char *format, ...);

#endif
