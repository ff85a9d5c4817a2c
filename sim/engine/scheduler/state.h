/*
 * The engine from inside: what its files share. Times are s, as in workload.h.
 */
#ifndef SLUICE_STATE_H
#define SLUICE_STATE_H

#include "base.h"
#include "engine.h"
#include "workload.h"

/*
 * What is free when: the machine's future as the scheduler sees it.
 *
 * A step function of time with one column a resource (groups of slots, then
 * licences), kept as rows in the order of time; row i holds from its time to the
 * next row's, the last one for good. Running jobs stay in it from start to limit,
 * leases for their time. Nothing here is per job, so a row's change is the unit of
 * cost: a handful on a small machine.
 */

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

/*
 * What will happen: a heap of (time, kind, sequence), so that ties are repeatable.
 */

/* At one instant they happen in this order. */
enum event_kind {
	EVENT_END,	/* of a run, by itself or at its limit */
	EVENT_LEASE,	/* a lease begins or ends, or a policy's hold ends */
	EVENT_ELIGIBLE, /* a job may enter the queue */
	EVENT_PRIORITY, /* priorities are calculated anew */
	EVENT_BACKFILL	/* a backfill pass is due */
};

struct event {
	double time;
	uint64_t order;	 /* kind, then sequence */
	uint32_t what;	 /* a job, or a run */
	uint32_t serial; /* of the run that ends */
};

struct events {
	struct event *heap;
	uint32_t count;
	uint32_t capacity;
	uint64_t sequence;
};

void events_release (struct events *e);
int events_push (struct events *e, double time, enum event_kind kind, uint32_t what,
		 uint32_t serial);	    /* -1: no memory */
struct event events_pop (struct events *e); /* only where count > 0 */

static inline enum event_kind
event_kind (const struct event *event)
{
	return (enum event_kind) (event->order >> 56);
}

/*
 * The order of jobs: FIFO, or Slurm's multifactor priority with a Fair Tree.
 *
 * Usage is slot-seconds, halved every half_life, counted up at each calc_period;
 * factors hold from one period to the next, as in slurmctld.
 */

struct share {
	double usage;  /* decayed, up to the last period */
	double mark;   /* sum of slots * start over what runs: see priority.c */
	double busy;   /* slots that run now */
	double factor; /* 0..1 */
};

/* Shares over usage, both normalised: the larger goes first. */
struct standing {
	double account_level;
	double level;
	uint32_t user;
};

struct priority {
	const struct sluice_workload *workload;
	double total_slots;
	double period_end;	/* of the current period */
	double decay;		/* of usage in one period */
	struct share *shares;	/* one an association */
	double *account_usage;	/* one an account */
	double *account_shares; /* of the associations of an account together */
	double all_shares;
	struct standing *standings; /* scratch */
	uint32_t account_count;
	int is_stale; /* factors do not follow usage yet */
};

int priority_init (struct priority *p, const struct sluice_workload *w, double origin);
void priority_release (struct priority *p);

/* The rank of a waiting job: less goes first. eligible: s when it entered the queue. */
uint64_t priority_rank (struct priority *p, uint32_t job, double eligible, double now);

void priority_started (struct priority *p, uint32_t job, double now);
void priority_ended (struct priority *p, uint32_t job, double now);

/* Close all periods up to now. */
void priority_advance (struct priority *p, double now);

/*
 * The waiting jobs in the order in which the scheduler looks at them.
 *
 * Places are arrays of their own, so that passing over jobs which cannot start is a
 * run through memory; blocks of places, and groups of blocks, know the smallest and
 * shortest of their jobs, and are passed over as a whole where even those cannot.
 */

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

/* A job while it runs. */
struct run {
	double expected_end; /* start + limit: what the scheduler counts with */
	double planned_end;  /* until when the plan sees its slots (run.c) */
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
	uint32_t *unmet; /* dependencies left, by job; NULL: no job has any */
	double *ready;	 /* when those met so far are over, by job */
	uint32_t
	    *dependents; /* indices of dependencies, sorted by the job that they wait for */
	uint32_t *first_dependent;  /* by job, into dependents; one more at the end */
	uint32_t *dependency_owner; /* by dependency */
	uint32_t *array_active;	    /* tasks in the queue or running, by array */
	uint32_t *array_head;	    /* tasks held back; NONE: none */
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
	int is_stopped;	    /* a licence is missing: no job below may start */
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
	double window_ends[MOST_WINDOWS]; /* run.c: the last end of each */
	uint32_t window_count;
	uint32_t columns;
	struct run *runs;
	int32_t *takes; /* [run * columns + column] */
	uint32_t run_count;
	uint32_t run_capacity;
	uint32_t free_run; /* chained through run.job; NONE: none */
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

#define NONE UINT32_MAX

/* All return -1 only where there is no memory. */

/* priority.c */
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
int run_settle_victims (struct sluice_engine *e); /* after a pass */

/* schedule.c */
int schedule_pass (struct sluice_engine *e, enum sluice_backfill rule);

/* run.c: let the plan of a backfill pass see ends as Slurm joins them, where
 * passes by this rule (enum sluice_backfill) do. */
int has_joined_ends (const struct sluice_engine *e, uint32_t rule);
int join_ends (struct sluice_engine *e);
void take_first_freed (const struct sluice_engine *e, double start,
		       const struct demand *demand, int32_t *take);

/* run.c */
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

/* Choose the jobs to preempt so that a job fits now; a is as before afterwards. 1: the
 * caller frees the list; 0: no job's end would do. */
int preempt_choose (struct sluice_engine *e, uint32_t job, const struct demand *demand,
		    struct availability *a, struct victims *out);
int preempt_chosen (struct sluice_engine *e, const struct victims *victims);

#endif
