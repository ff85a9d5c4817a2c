/*
 * Policies that may decide in a replay (engine.h), one family a file. Each keeps what
 * it did with every job. docs/reference/replay.md states what each of them does.
 */
#ifndef SLUICE_POLICIES_H
#define SLUICE_POLICIES_H

#include "control.h"
#include "decide.h"
#include "engine.h"

/* What a policy did with a job. */
struct sluice_policy_result {
	double held_since;  /* s: when it could have started and was delayed; -1: never */
	double held;	    /* s delayed: at most, as others may have taken its place */
	double saving;	    /* node-s that its delay or its lanes are predicted to save */
	uint32_t lane_mask; /* lanes it was put on; 0: all */
	uint32_t decisions; /* made about it */
	uint16_t action;    /* enum sluice_action of the last one; ABSTAIN: none */
	uint16_t reason;    /* enum sluice_reason */
	uint32_t reserved;
};

/* One element a job, none delayed; free () it. NULL: no memory. */
struct sluice_policy_result *sluice_policy_results_new (uint32_t job_count);

/* Delay a job that could start, but not longer than max_delay after it could
 * first have started. 1: it is delayed; 0: it has waited long enough. */
int sluice_policy_hold (struct sluice_policy_result *result, double now, double max_delay,
			struct sluice_choice *choice);

/* It starts now, or may. */
void sluice_policy_release (struct sluice_policy_result *result, double now,
			    double max_delay, struct sluice_choice *choice);

/*
 * Gates of fixed size: a job starts when what it needs is free at each of its gates,
 * or without, when it has been delayed for max_delay. No job is predicted, nothing
 * is weighed.
 */
struct sluice_gate_need {
	uint32_t gate;
	uint32_t reserved;
	double amount;
};

struct sluice_gate_setup {
	const double *room; /* of each gate */
	uint32_t gate_count;
	uint32_t job_count;
	const uint32_t *first; /* by job, into needs; one more at the end */
	const struct sluice_gate_need *needs;
	double max_delay; /* s; INFINITY: jobs wait as long as it takes */
};

struct sluice_gates_policy;

/* The setup's arrays must outlive it. A need that is larger than its gate takes all of
 * it. NULL without memory. */
struct sluice_gates_policy *sluice_gates_policy_new (const struct sluice_gate_setup *setup);
void sluice_gates_policy_destroy (struct sluice_gates_policy *policy); /* NULL is fine */
const struct sluice_replay_policy *
sluice_gates_policy_table (struct sluice_gates_policy *policy);
/* One element a job. */
const struct sluice_policy_result *
sluice_gates_policy_results (const struct sluice_gates_policy *policy);

/*
 * Sluice: the decision core itself (policies/core), deciding when a job is submitted,
 * and its control loop (control.h), polled whenever a job with tokens could start. What
 * it knows of a job is what the bundle predicts for its submission; when others end, what
 * their limits say, or their predicted run times.
 *
 * On a lane with Place=blocks it chooses the block of a job together with the decision;
 * jobs that wait count as well.
 *
 * Slurm here gives the tokens that the gates let out to the first job that could start;
 * a job that finds none waits, and blocks no other. From when it could first have started,
 * it is charged.
 */
struct sluice_core_setup {
	const struct sluice_bundle *bundle;
	const struct sluice_config *config;
	const struct sluice_replay_job *jobs;
	const struct sluice_submission *submissions; /* one an application */
	const uint32_t *application;		     /* by job, into submissions */
	uint32_t job_count;
	int64_t epoch; /* UTC seconds of time 0 */
	/* The policy that says when jobs start: then the core only places them. NULL: the
	 * core says that, too. */
	const struct sluice_replay_policy *other;
};

struct sluice_core_policy;

/* All must outlive it. NULL without memory. */
struct sluice_core_policy *sluice_core_policy_new (const struct sluice_core_setup *setup);
void sluice_core_policy_destroy (struct sluice_core_policy *policy); /* NULL is fine */
const struct sluice_replay_policy *
sluice_core_policy_table (struct sluice_core_policy *policy);
/* One element a job. */
const struct sluice_policy_result *
sluice_core_policy_results (const struct sluice_core_policy *policy);

/* What was decided in the latest call of a hook, in order: on the job that is submitted,
 * or on all that the control loop decided on again. */
struct sluice_core_decision {
	uint32_t job;
	uint32_t reserved;
	struct sluice_decision decision;
};
const struct sluice_core_decision *
sluice_core_policy_decisions (const struct sluice_core_policy *policy, uint32_t *count);

/* What the control loop is handed and what it makes of that, call by call: tests do the
 * same with it as sluiced does. */
enum sluice_core_moment {
	SLUICE_CORE_BEFORE_BOUND,
	SLUICE_CORE_AFTER_BOUND,
	SLUICE_CORE_BEFORE_POLL,
	SLUICE_CORE_AFTER_POLL,
};
struct sluice_core_queue {
	const struct sluice_control_job *jobs;
	const struct sluice_submission *const *submissions;
	const struct sluice_control_facts *facts;
	const struct sluice_control_gates *gates; /* of the latest poll */
	uint32_t count;
	uint32_t reserved;
};
typedef void sluice_core_watch (void *watcher, enum sluice_core_moment moment,
				const struct sluice_core_queue *queue);
void sluice_core_policy_watch (struct sluice_core_policy *policy, sluice_core_watch *watch,
			       void *watcher);

/* What Sluice sees of a job: the submission of its application, with its own size and
 * limit. */
void sluice_core_submission (const struct sluice_core_setup *setup, uint32_t job,
			     struct sluice_submission *out);

#endif
