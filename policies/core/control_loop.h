/*
 * Internal to the core: what the parts of the control loop share. control.c charges waits,
 * releases and decides again; control_room.c says which jobs could start, control_gates.c
 * how many tokens each gate lets out.
 */
#ifndef SLUICE_CONTROL_LOOP_H
#define SLUICE_CONTROL_LOOP_H

#include "control.h"
#include "load.h"
#include "situation.h"

/* A job in some order. */
struct ranked {
	double key; /* the smallest first */
	uint32_t job_id;
	uint32_t index;
};

/* Jobs with tokens that are alike to the gates: klass, lanes and pressure. How many of
 * those that wait is told for all (0), and for those that could start now (1). */
struct kind {
	uint32_t first;	     /* one of them: index into the jobs */
	uint32_t running;    /* jobs */
	uint32_t waiting[2]; /* with all tasks of arrays, as the next */
	uint32_t need[2];    /* of these, not decided to wait for others */
};

/* What the gates of a lane were sized for, and the answer. Lanes often ask the same, and so
 * do polls between which jobs came and went. */
struct answer {
	uint64_t question; /* hash; 0: none was asked */
	struct sluice_gates gates;
};
enum { SLUICE_CONTROL_ANSWERS = 1024 };

struct sluice_control {
	uint32_t capacity;
	struct sluice_workspace *workspace;
	struct ranked *ranked;
	uint32_t kind_count;
	struct kind *kinds;
	uint32_t slot_count; /* a power of two */
	uint32_t *slots;     /* hash table of kinds, each plus 1; 0: free */
	uint32_t load_count;
	uint32_t listed_count;
	uint32_t *listed; /* jobs that one step puts aside for the next */
	uint32_t action_count;
	uint32_t *actions;	       /* jobs with an action in their verdict */
	struct sluice_member *members; /* of a lane: those that run, then those that wait */
	struct sluice_member *chosen;  /* those that run, and who stands for the others */
	const struct sluice_pressure **loads;
	struct answer answers[SLUICE_CONTROL_ANSWERS]; /* by question */
	uint32_t decision_count;
	struct sluice_control_decision decisions[SLUICE_CONTROL_DECISIONS];
};

/* Put a job behind those that are ranked, and sort them: by key, then by number. */
void sluice_control_rank (struct sluice_control *c, uint32_t *count, double key,
			  const struct sluice_control_job *jobs, uint32_t i);
void sluice_control_sort (struct sluice_control *c, uint32_t count);

/* Begin to count jobs; count one with tokens by its kind, or the load of a running one that
 * no token stands for. */
void sluice_control_count_none (struct sluice_control *c);
void sluice_control_count (struct sluice_control *c, const struct sluice_control_job *jobs,
			   uint32_t i);

/* Of those that were counted: how many tokens each gate lets out, and how many are held, or
 * wanted by those that they are let out for. */
void sluice_control_size_gates (struct sluice_control *c,
				const struct sluice_control_job *jobs,
				const struct sluice_situation *situation,
				struct sluice_control_gates *out);
void sluice_control_wanted (const struct sluice_control *c,
			    const struct sluice_control_job *jobs,
			    uint32_t wanted[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES]);

static inline int
is_pending (const struct sluice_control_job *job)
{
	return job->state == SLUICE_CONTROL_WAITS || job->state == SLUICE_CONTROL_LATER;
}

static inline int
wants_tokens (const struct sluice_control_job *job)
{
	return job->state == SLUICE_CONTROL_WAITS && job->tokens.lane_mask;
}

/* Whether the loop vouches for its tokens: then they count in the gates. */
static inline int
counts (const struct sluice_control_job *job)
{
	const uint32_t all = SLUICE_CONTROL_GRANTED | SLUICE_CONTROL_PREDICTED;
	return job->tokens.lane_mask && (job->flags & all) == all;
}

/* The least of a table over the lanes of these tokens. */
static inline uint32_t
least_of (const uint32_t table[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES],
	  const struct sluice_tokens *tokens)
{
	uint32_t least = UINT32_MAX;
	for (uint32_t lane = 0, mask = tokens->lane_mask; mask && lane < SLUICE_MAX_LANES;
	     lane++, mask >>= 1)
		if (mask & 1 && table[tokens->klass][lane] < least)
			least = table[tokens->klass][lane];
	return least;
}

/* Whether Slurm could give the job its tokens at once. */
static inline int
has_free_tokens (const struct sluice_control_job *job,
		 const struct sluice_control_facts *facts)
{
	return least_of (facts->free, &job->tokens) > 0;
}

#endif
