/*
 * The engine from inside: what its files share. Times are s, as in workload.h.
 */
#ifndef SLUICE_STATE_H
#define SLUICE_STATE_H

#include "availability.h"
#include "engine.h"
#include "events.h"
#include "priority.h"
#include "queue.h"

/* A job while it runs. */
struct run {
	double expected_end; /* start + limit: what the scheduler counts with */
	double planned_end;  /* until when the plan sees its slots (joined_ends.c) */
	uint32_t job;
	uint32_t serial; /* 0: free; tells this run from earlier ones in its place */
};

enum { MOST_WINDOWS = 2100 }; /* each twice as long, from 2^-1074 s to the largest double */

/* An end of a run, to be sorted. */
struct ending {
	double time;
	uint32_t run;
};

/* Jobs that must wait before they may enter the queue. */
struct eligibility {
	uint32_t *unmet;      /* dependencies left, by job; NULL: nobody has any */
	double *ready;	      /* when those met so far are over, by job */
	uint32_t *dependents; /* indices of dependencies, sorted by whom they wait for */
	uint32_t *first_dependent;  /* by job, into dependents; one more at the end */
	uint32_t *dependency_owner; /* by dependency */
	uint32_t *array_active;	    /* tasks in the queue or running, by array */
	uint32_t *array_head;	    /* tasks held back; NOBODY: none */
	uint32_t *array_tail;
	uint32_t *next_held; /* by job */
};

/* What a pass over the queue found out; holds until something is freed. */
struct pass {
	double next_start;  /* the earliest start that it planned */
	uint64_t closed;    /* groups that lower jobs may not use */
	uint32_t new_count; /* jobs at the queue's end that it has not seen */
	uint32_t rule;	    /* enum sluice_backfill */
	int is_valid;	    /* new jobs may be looked at alone */
	int is_lasting;	    /* time alone changes nothing before next_start */
	int is_stopped;	    /* a licence is missing: nobody below may start */
	int has_plan;	    /* plan differs from base */
	uint8_t is_blocked[SLUICE_REPLAY_PARTITIONS];
};

struct sluice_engine {
	const struct sluice_workload *workload;
	const struct sluice_replay_storage *storage;
	const struct sluice_replay_policy *policy;
	double now;
	double origin; /* the first submission: ticks count from here */
	uint32_t next_submit;
	uint32_t ended;
	uint32_t waits_in_heap; /* ends of runs, leases and begins still to come */
	int has_tick;
	int has_period;
	int is_quiet;	      /* at this instant only time has passed */
	double settled_until; /* so long a pass finds what the last one found */
	struct events events;
	struct queue queue;
	struct priority priority;
	struct eligibility eligibility;
	struct pass pass;
	struct availability base;	  /* running jobs and leases */
	struct availability plan;	  /* and reservations */
	double window_ends[MOST_WINDOWS]; /* joined_ends.c: the last end of each */
	uint32_t window_count;
	uint32_t columns;
	struct run *runs;
	int32_t *takes; /* [run * columns + column] */
	uint32_t run_count;
	uint32_t run_capacity;
	uint32_t free_run; /* chained through run.job; NOBODY: none */
	uint32_t running;
	uint32_t serial;
	uint32_t *run_of; /* by job */
	uint32_t waiting_in[SLUICE_REPLAY_PARTITIONS];
	uint32_t *victims; /* jobs preempted in this pass: they wait again after it */
	uint32_t victim_count;
	uint32_t victim_capacity;
	struct sluice_choice *choices; /* by job; NULL without a policy */
	struct sluice_license_need needs[SLUICE_MAX_LICENSES + SLUICE_MAX_TOKENS];
	struct sluice_job_result *results;
};

#define NOBODY UINT32_MAX

/* All return -1 only where there is no memory. */

/* eligible.c */
int eligibility_init (struct sluice_engine *e);
void eligibility_release (struct eligibility *eligibility);
int eligible_submitted (struct sluice_engine *e, uint32_t job);
int eligible_now (struct sluice_engine *e, uint32_t job);
int eligible_started (struct sluice_engine *e, uint32_t job);
int eligible_ended (struct sluice_engine *e, uint32_t job); /* its result is final */
int eligible_enqueue (struct sluice_engine *e, uint32_t job);

/* run.c */
int run_start (struct sluice_engine *e, uint32_t job, const int32_t *take);
int run_end (struct sluice_engine *e, uint32_t run, enum sluice_job_state state);
int run_preempt (struct sluice_engine *e, uint32_t run); /* within a pass */
int run_settle_victims (struct sluice_engine *e);	 /* after it */

/* schedule.c */
int schedule_pass (struct sluice_engine *e, enum sluice_backfill rule);

/* joined_ends.c: let the plan of a backfill pass see ends as Slurm joins them, where
 * passes by this rule (enum sluice_backfill) do. */
int has_joined_ends (const struct sluice_engine *e, uint32_t rule);
int join_ends (struct sluice_engine *e);
void take_first_freed (const struct sluice_engine *e, double start,
		       const struct demand *demand, int32_t *take);

/* Take the run's part from the plan (sign -1) from now on, or give it back (1). */
int run_change_plan (struct sluice_engine *e, uint32_t run, int32_t sign);

/* preempt.c */
struct victim {
	double start;
	uint32_t tier;
	uint32_t job;
	uint32_t run;
	uint32_t is_needed;
};

struct victims {
	struct victim *list;
	uint32_t count;
};

/* Choose whom to preempt so that a job fits now; a is as before afterwards. 1: the caller
 * frees the list; 0: nobody's end would do. */
int preempt_choose (struct sluice_engine *e, uint32_t job, const struct demand *demand,
		    struct availability *a, struct victims *out);
int preempt_chosen (struct sluice_engine *e, const struct victims *victims);

#endif
