/*
 * What is free when: the machine's future as the scheduler sees it.
 *
 * A step function of time with one column a resource (groups of slots, then
 * licences), kept as rows in the order of time; row i holds from its time to the
 * next row's, the last one for good. Running jobs stay in it from start to limit,
 * leases for their time. Nothing here is per job, so a row's change is the unit of
 * cost: a handful on a small machine.
 */
#ifndef SLUICE_AVAILABILITY_H
#define SLUICE_AVAILABILITY_H

#include "workload.h"

struct availability {
	uint32_t columns;
	uint32_t first; /* rows [first, end) hold */
	uint32_t end;
	uint32_t capacity;
	double *time;
	int32_t *free; /* [row * columns + column]; below 0 where a lease exceeds it */
};

enum { MAX_COLUMNS = SLUICE_MAX_GROUPS + SLUICE_MAX_LICENSES };

/* What a job needs all the time from its start to its limit. */
struct demand {
	double duration;
	uint64_t groups; /* where its slots may come from */
	int32_t slots;
	uint32_t need_count;
	uint32_t first_license; /* column of licence 0 */
	const struct sluice_license_need *needs;
};

/* One row from the beginning of time. -1: no memory. */
int availability_init (struct availability *a, uint32_t columns, const int32_t *free);
void availability_release (struct availability *a);
int availability_copy (struct availability *to, const struct availability *from);

/* Forget what was before now. */
void availability_advance (struct availability *a, double now);

/* Add sign * amount[column] during [from, until). -1: no memory. */
int availability_change (struct availability *a, double from, double until,
			 const int32_t *amount, int32_t sign);

/* The earliest start in [now, latest] at which the demand is met to its end, or
 * INFINITY; take[column] is what it takes then, lowest groups first. */
double availability_earliest (const struct availability *a, double now, double latest,
			      const struct demand *demand, int32_t *take);

/* What each group of the mask has throughout [from, until), in least[group]. */
void availability_least (const struct availability *a, double from, double until,
			 uint64_t groups, int32_t *least);

/* A bound on what can start now, for passing over many jobs quickly: such a job has
 * at most `slots`, and at most `later` unless its limit is at most `horizon` away. */
struct opening {
	int32_t slots;
	int32_t later;
	double horizon;
};
struct opening availability_opening (const struct availability *a, double now,
				     uint64_t groups);

#endif
