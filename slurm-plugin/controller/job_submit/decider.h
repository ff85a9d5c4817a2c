/*
 * Where jobs are decided on, one at a time.
 *
 * Users submit in loops: hundreds of jobs a second of one application, which differ by a
 * number in their names. With the same view, second and question the core gives the same
 * bytes, so the last answer is given again; only the block is chosen for each of them.
 */
#ifndef SLUICE_DECIDER_H
#define SLUICE_DECIDER_H

#include "loader.h"

struct decider {
	pthread_mutex_t lock; /* slurmctld may have several jobs submitted at once */
	struct sluice_workspace *workspace;
	/* the last question and its answer */
	uint64_t view; /* struct view.number; 0: there is none */
	int64_t now;
	struct sluice_submission question; /* sluice_submission_question */
	struct sluice_decision answer;
	uint32_t placed; /* jobs for which a block was chosen */
	/* jobs that got one, the oldest first, and when: until a snapshot has them */
	uint32_t since_count;
	struct sluice_placed_job since[SLUICE_MAX_SINCE];
	int64_t since_at[SLUICE_MAX_SINCE]; /* UTC seconds */
};

/* -1: no memory. */
int decider_init (struct decider *decider);
void decider_destroy (struct decider *decider);

/* Fill in the decision, the mode, the grant and the block of a record with a completed
 * submission. Returns whether the decision was the last answer. */
int decider_decide (struct decider *decider, const struct view *view,
		    struct sluice_record *record);

#endif
