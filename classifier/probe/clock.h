/*
 * Wall-clock time that does not jump: seconds since the epoch, by the machine's
 * monotonic clock. Slices of several nodes can be laid side by side, and an
 * adjustment of the clock during a run does not stretch any of them.
 */
#ifndef SLUICE_PROBE_CLOCK_H
#define SLUICE_PROBE_CLOCK_H

/* Once, before any process is started. */
void clock_init (void);

double clock_now (void);

/* Sleep until then; returns at once when it has passed. */
void clock_wait (double until);

#endif
