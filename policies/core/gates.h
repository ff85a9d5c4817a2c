/*
 * How many tokens of each class a lane lets out.
 *
 * Whatever set of waiting jobs Slurm picks within the gates, no member's
 * predicted slowdown exceeds the tolerance: the gates of the classes are sized
 * together, for the worst waiting jobs of each class, because Slurm chooses.
 * That holds until the next poll, whichever of the holders end before it.
 */
#ifndef SLUICE_GATES_H
#define SLUICE_GATES_H

#include "interference.h"

/* A job that holds or waits for a token of the lane. */
struct sluice_member {
	struct sluice_pressure pressure; /* on this lane */
	uint32_t klass;			 /* not SLUICE_CLASS_NONE */
	uint32_t job_id;
};

struct sluice_gates {
	uint32_t tokens[SLUICE_CLASS_COUNT]; /* held + admitted, by class */
};

/*
 * The gates of one lane to keep until the next poll, in which holders may end
 * and Slurm may give their tokens to any waiting job of the class: sound for
 * every set that can come about so, not only for those that hold a token now. A
 * class may get fewer tokens than it holds: then none follows a holder that
 * ends.
 * members are the holders and, behind them, those that wait; background is load
 * without tokens. At most limit waiting jobs of a class are admitted, and
 * n_running + n_background + the admitted never exceed SLUICE_MAX_SET + 1. With
 * up to 8 holders the result is maximal: one more token of any class with
 * waiting jobs could break a job's tolerance.
 */
void sluice_gates_keep (const struct sluice_member *members, uint32_t n_running,
			uint32_t n_waiting, const struct sluice_pressure *background,
			uint32_t n_background, const struct sluice_interference *model,
			const struct sluice_policy *policy, uint32_t limit,
			struct sluice_gates *out);

#endif
