/*
 * Where jobs are decided on, one at a time.
 *
 * Users submit in loops: hundreds of jobs a second of one application, which differ by a
 * number in their names. With the same view, second and question the core gives the same
 * bytes, so the last answer is given again.
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
};

/* -1: no memory. */
int decider_init (struct decider *decider);
void decider_destroy (struct decider *decider);

/* sluice_decide for a completed submission. Returns whether it was the last answer. */
int decider_decide (struct decider *decider, const struct view *view,
		    const struct sluice_submission *submission, int64_t now,
		    struct sluice_decision *out);

#endif
