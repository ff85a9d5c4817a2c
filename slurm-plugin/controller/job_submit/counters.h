/*
 * What the plugin has done, for `sluice doctor`. Every field is counted up by many
 * threads at once and never reset; the next slurmctld goes on with them (spool.h).
 */
#ifndef SLUICE_COUNTERS_H
#define SLUICE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "vocabulary.h"

/*
 * A histogram of nanoseconds that threads fill at once without a lock: four
 * buckets for each doubling, so that a quantile is right within 25 %.
 */

enum { HISTOGRAM_BUCKETS = 64 };

struct histogram {
	_Atomic uint64_t count[HISTOGRAM_BUCKETS];
	_Atomic uint64_t max;
};

void histogram_add (struct histogram *histogram, uint64_t ns);

/* Everything in bucket i is below this; the last bucket has no bound. */
uint64_t histogram_upper (unsigned int i);

/* Reading the thread's clock is a call of the kernel, and two of them would take a tenth
 * of the time of a decision: so one job in so many is timed. */
enum { TIMED_ONE_IN = 8 };

struct counters {
	_Atomic uint64_t submissions;	/* calls of job_submit */
	_Atomic uint64_t modifications; /* calls of job_modify */
	_Atomic uint64_t decided;	/* records made */
	_Atomic uint64_t repeated;	/* of these: the answer to the job before */
	_Atomic uint64_t notes;		/* admin comments appended to */
	_Atomic uint64_t stripped;	/* jobs and changes whose user had written tokens */
	_Atomic uint64_t opt_outs; /* changes that drop tokens; an array counts a record */
	_Atomic uint64_t grants[SLUICE_GRANT_COUNT];
	_Atomic uint64_t actions[SLUICE_ACTION_COUNT];
	_Atomic uint64_t reasons[SLUICE_REASON_COUNT];
	/* thread CPU time of job_submit, of one in TIMED_ONE_IN: jobs of
	 * which the user's own runs are known; all that were recorded */
	struct histogram known;
	struct histogram all;
};

enum { COUNTERS_COUNT = sizeof (struct counters) / sizeof (uint64_t) };

void counters_read (struct counters *counters, uint64_t out[COUNTERS_COUNT]);
/* Add what an earlier slurmctld had counted. */
void counters_add (struct counters *counters, const uint64_t earlier[COUNTERS_COUNT]);

/* Returns how many there were before. */
static inline uint64_t
count (_Atomic uint64_t *counter)
{
	return atomic_fetch_add_explicit (counter, 1, memory_order_relaxed);
}

#endif
