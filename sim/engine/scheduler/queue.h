/*
 * The waiting jobs in the order in which the scheduler looks at them.
 *
 * Places are arrays of their own, so that passing over jobs which cannot start is a
 * run through memory; blocks of places, and groups of blocks, know the smallest and
 * shortest of their jobs, and are passed over as a whole where even those cannot.
 */
#ifndef SLUICE_QUEUE_H
#define SLUICE_QUEUE_H

#include "availability.h"

enum {
	QUEUE_BLOCK = 64,		/* places, and blocks in a group */
	QUEUE_GROUP = 64 * QUEUE_BLOCK, /* places */
	QUEUE_CLASSES = 16,		/* of sizes, by powers of 2; the last is open */
	QUEUE_EMPTY = INT32_MAX		/* more slots than any opening has */
};

/* What the jobs of several places have at least. */
struct queue_summary {
	int32_t slots;
	double limit[QUEUE_CLASSES]; /* [c]: of the jobs below 2^(c + 1) slots */
};

struct queue {
	uint32_t end;	/* places [0, end) are used */
	uint32_t start; /* all before are empty */
	uint32_t capacity;
	uint32_t waiting; /* places with a job */
	uint64_t *rank;	  /* less goes first; ties go by job */
	uint32_t *job;
	int32_t *slots; /* QUEUE_EMPTY: the job has left */
	double *limit;
	struct queue_summary *blocks;
	struct queue_summary *groups;
};

void queue_release (struct queue *q);

/* Put a job into its place. Returns the place, or -1 without memory. */
int64_t queue_insert (struct queue *q, uint64_t rank, uint32_t job, int32_t slots,
		      double limit);
void queue_remove (struct queue *q, uint32_t place);

/* An opening that every waiting job passes. */
extern const struct opening queue_all;

/* The first place from `place` on whose job may pass the opening; q->end: none. */
uint32_t queue_next (struct queue *q, uint32_t place, const struct opening *opening);

/* Order all places anew after their ranks have changed, and close the gaps. */
int queue_sort (struct queue *q);

#endif
