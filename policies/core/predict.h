/*
 * What is known at submission time -> the job's profile.
 *
 * By this user's runs of this script; where they are not certain enough, of this name;
 * where there are few, by any user's runs of this name. What is known of the user's own
 * runs is told by those most like this one: with the same arguments, where runs do other
 * things with others, and of the same size; else of all sizes, scaled. Below min_confidence
 * the decision abstains. What many runs of the user's own leave open is not settled by
 * those of others.
 *
 * Anybody may use any name, so runs of others never say what a job does. They can
 * make it more certain that it does what the user's own runs did, as far as those
 * bear them out; the numbers stay the user's own. Where a user has no runs of it,
 * those of others are reported and do not count.
 *
 * A review stands above all of this: it says how to treat a program, or that nothing
 * predicted of it counts.
 */
#ifndef SLUICE_PREDICT_H
#define SLUICE_PREDICT_H

#include "bundle.h"
#include "submission.h"

enum { SLUICE_ENOUGH_RUNS = 10 }; /* of one's own, for others not to be asked */

struct sluice_prediction {
	struct sluice_profile profile; /* confidence and runs inside */
	uint32_t evidence;	       /* enum sluice_evidence */
	uint32_t application;	       /* struct sluice_application.id; 0: none. With
					* evidence REVIEW: struct sluice_review.number */
	uint32_t klass;		       /* enum sluice_class */
};

/* now: UTC seconds, by which reviews end. */
void sluice_predict (const struct sluice_bundle *bundle,
		     const struct sluice_submission *submission, int64_t now,
		     struct sluice_prediction *out);

/* Whether runs of the user's own, or a review, are behind a prediction. Any other is only
 * reported: its job has no class, is left to Slurm and loads no lane. */
int sluice_prediction_counts (const struct sluice_prediction *prediction);

#endif
