/*
 * Prediction + what runs now -> a decision that explains itself.
 *
 * For every way to run the job (share all lanes, share them in turns, each lane alone, wait
 * for the conflict to end) the lost node-seconds are predicted: the job's own, those it
 * causes, what confinement costs, and the price of waiting. The cheapest is
 * taken if it beats sharing by the margin.
 */
#ifndef SLUICE_DECIDE_H
#define SLUICE_DECIDE_H

#include "config.h"
#include "predict.h"
#include "scope.h"
#include "snapshot.h"

enum {
	SLUICE_MAX_ALTERNATIVES = SLUICE_MAX_LANES + 2,
	SLUICE_MAX_REPORTED = 8, /* co-runners kept in a decision */
	SLUICE_MAX_SINCE = 16,	 /* jobs decided on after the snapshot, kept in a place */
};

/* The spread beyond which, in one case of ten, the rate alone is off by more than e: what
 * hardly ever ran undisturbed may be what others harm most. */
extern const float sluice_unknown_rate_spread;

/* One way to run the job. Costs are expected node-seconds: of a bound on
 * what both programs press, a saving would be twice too large. */
struct sluice_alternative {
	uint32_t action; /* COLOCATE: share; TURNS: in turns; DISJOINT: one lane; DELAY */
	uint32_t lane_mask; /* where it would write; 0: everywhere */
	double slowdown;    /* of the job itself, >= 1 */
	double own;	    /* lost by the job through others */
	double caused;	    /* lost by others through the job */
	double confined;    /* lost by having fewer targets, or slow ones */
	double wait;	    /* seconds of added wait */
	double cost;	    /* own + caused + confined + wait price */
};

/* A running job and what the two would do to each other, sharing. */
struct sluice_corun {
	uint32_t job_id;
	uint32_t nodes;
	double own_slowdown;   /* of the new job alongside this one alone */
	double other_slowdown; /* of this one alongside the new job alone */
	double together;       /* seconds they are expected to coexist */
};

struct sluice_decision {
	struct sluice_prediction prediction;
	uint32_t action; /* enum sluice_action */
	uint32_t reason; /* enum sluice_reason */
	uint32_t chosen; /* index into alternatives */
	uint32_t alternative_count;
	uint32_t corunner_count; /* considered */
	uint32_t corun_count;	 /* reported, the worst first */
	double wait;		 /* seconds, when action is DELAY */
	struct sluice_alternative alternatives[SLUICE_MAX_ALTERNATIVES];
	struct sluice_corun coruns[SLUICE_MAX_REPORTED];
};

/* Where a job's output goes within its lane. */
struct sluice_place {
	uint32_t is_asked;	      /* 1: it is confined to a lane with Place=blocks */
	uint32_t need;		      /* targets: sluice_placement_need */
	struct sluice_placed_job job; /* block.count 0: all targets of its lanes */
	struct sluice_placement_choice choice;
	/* Inputs: which it is of the jobs that get a block, for blocks that cost the same;
	 * the latest jobs that got one after the snapshot was taken. */
	uint32_t turn;
	uint32_t since_count;
	struct sluice_placed_job since[SLUICE_MAX_SINCE];
};

/* Bundle and snapshot made ready: the pressures of the co-runners, what each
 * loses already. Made when either changes, never in a decision. */
struct sluice_situation;

/* snapshot may be NULL. Both must outlive the situation. NULL: no memory. */
struct sluice_situation *sluice_situation_create (const struct sluice_bundle *bundle,
						  const struct sluice_snapshot *snapshot);
void sluice_situation_destroy (struct sluice_situation *situation);

/*
 * For a simulator, in which co-runners change with every start and end: what runs, kept
 * from change to change instead of written as a snapshot each time. A situation that
 * was renewed from a set equals one created from a snapshot with the same
 * co-runners in the order of their job ids.
 */
struct sluice_corunner_set;
struct sluice_corunner_set *sluice_corunner_set_create (const struct sluice_bundle *bundle);
void sluice_corunner_set_destroy (struct sluice_corunner_set *set); /* NULL is fine */
/* -1: there are SLUICE_MAX_CORUNNERS already. */
int sluice_corunner_set_add (struct sluice_corunner_set *set,
			     const struct sluice_corunner *corunner);
void sluice_corunner_set_remove (struct sluice_corunner_set *set, uint32_t job_id);
/* A job with a block that waits, or runs without being in the set, comes or goes. */
void sluice_corunner_set_place (struct sluice_corunner_set *set,
				const struct sluice_placed_job *job, int is_there);
/* See sluice_placement_see. */
void sluice_corunner_set_see (struct sluice_corunner_set *set,
			      const struct sluice_target *target);
/* The situation must have been created with the set's bundle and a snapshot. */
void sluice_situation_renew (struct sluice_situation *situation,
			     struct sluice_corunner_set *set);

/*
 * Where decisions are worked out, one at a time: 64 KiB that a caller keeps. On a stack
 * they would cost more than the decision: slurmctld answers each request in a new
 * thread, and of a thread that ended the C library gives the deep pages back, for which
 * the kernel interrupts every core that slurmctld runs on.
 */
struct sluice_workspace;
struct sluice_workspace *sluice_workspace_create (void); /* NULL: no memory */
void sluice_workspace_destroy (struct sluice_workspace *workspace);

/* Decide for a submission at time now (UTC seconds), which the caller has completed by
 * the snapshot, as records keep it. situation NULL: no valid bundle. Allocates nothing,
 * cannot fail; what the workspace was used for before makes no difference. */
void sluice_decide (struct sluice_workspace *workspace,
		    const struct sluice_situation *situation,
		    const struct sluice_config *config,
		    const struct sluice_submission *submission, int64_t now,
		    struct sluice_decision *out);

/* Choose the block of a job that was decided on in this mode (enum sluice_mode). The caller
 * has filled in the inputs of a place that is else 0. situation may be NULL. */
void sluice_decide_block (struct sluice_workspace *workspace,
			  const struct sluice_situation *situation,
			  const struct sluice_config *config, uint32_t mode,
			  const struct sluice_submission *submission,
			  const struct sluice_decision *decision,
			  struct sluice_place *place);

#endif
