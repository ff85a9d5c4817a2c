/*
 * The replay engine: when would each job have started and ended?
 *
 * Event-driven and deterministic: no clock, no globals, no threads; engines in
 * different threads do not share anything. Memory grows with jobs, not with time.
 */
#ifndef SLUICE_ENGINE_H
#define SLUICE_ENGINE_H

#include "placement.h"
#include "workload.h"

/*
 * What may be plugged into the engine: storage that stretches jobs, and a policy
 * that decides about them. Both in C, so that no job costs a call of Python.
 */

struct sluice_replay_storage_end {
	double time;
	uint32_t job;
	uint32_t reserved;
};

/* The storage model that answers. Calls come in the order of time. */
struct sluice_replay_storage {
	void *self;
	/* A job starts on the lanes of lane_mask (0: all), on a block of their targets
	 * (count 0: on all of them); -1: no memory. */
	int (*start) (void *self, double now, uint32_t job, uint32_t lane_mask,
		      struct sluice_block block);
	/* A job is killed or preempted. */
	void (*stop) (void *self, double now, uint32_t job);
	/* Run up to and including until: 1 at the first end of a job, 0 without one;
	 * called again after each 1. */
	int (*run) (void *self, double until, struct sluice_replay_storage_end *end);
	/* Bytes on a target, counted from 0 over all lanes; -1: there is no such target, or
	 * they are not told apart. NULL: likewise. */
	double (*filled) (void *self, uint32_t target);
};

enum { SLUICE_MAX_TOKENS = 4 };

/* What a policy wants of one job. */
struct sluice_choice {
	double not_before;	   /* do not start earlier; at most now: start */
	double hold_until;	   /* after now: not yet; see starting */
	double wake;		   /* the engine's own */
	uint32_t lane_mask;	   /* lanes it will write to; 0: all */
	uint32_t token_count;	   /* licences that it takes next to its own */
	struct sluice_block block; /* of the targets of its lanes; count 0: all of them */
	struct sluice_license_need tokens[SLUICE_MAX_TOKENS];
};

/* The hooks of a policy. Each function may be NULL. */
struct sluice_replay_policy {
	void *self;
	/* A job enters the queue; choice is empty. */
	void (*submitted) (void *self, double now, uint32_t job,
			   struct sluice_choice *choice);
	/* A job could start now; choice holds what was chosen so far. A not_before in the
	 * future takes it out of the queue until then. A hold_until in the future, or
	 * tokens that are not free, leave it where it is: it blocks no job and has no
	 * reservation, as in Slurm a job that lacks a licence, and is asked about again
	 * whenever a job has ended, and at hold_until. */
	void (*starting) (void *self, double now, uint32_t job,
			  struct sluice_choice *choice);
	void (*started) (void *self, double now, uint32_t job);
	void (*ended) (void *self, double now, uint32_t job);
	/* Once, before all others: the storage that answers; not called without one. */
	void (*begins) (void *self, const struct sluice_replay_storage *storage);
};

enum sluice_job_state {
	SLUICE_JOB_WAITING, /* never started: no event could start it any more */
	SLUICE_JOB_RUNNING, /* only while the replay runs */
	SLUICE_JOB_COMPLETED,
	SLUICE_JOB_FAILED,    /* ran to its end, as the trace says without success */
	SLUICE_JOB_TIMEOUT,   /* killed at its limit */
	SLUICE_JOB_PREEMPTED, /* killed for a job of a higher tier */
	SLUICE_JOB_IMPOSSIBLE /* wants more than its partition or the licences have */
};

/* What became of a job. */
struct sluice_job_result {
	double eligible; /* when it entered the queue first; -1: never */
	double start;	 /* of its last run; -1: never */
	double end;	 /* -1: never */
	double lost;	 /* s of earlier runs that preemption threw away */
	uint32_t restarts;
	uint32_t state; /* enum sluice_job_state */
};

struct sluice_engine;

/* The workload, its arrays and the hooks must outlive the engine. storage and
 * policy may be NULL. Returns NULL when something makes no sense; err says what. */
struct sluice_engine *sluice_engine_new (const struct sluice_workload *workload,
					 const struct sluice_replay_storage *storage,
					 const struct sluice_replay_policy *policy,
					 struct sluice_error *err);
void sluice_engine_destroy (struct sluice_engine *engine); /* NULL is fine */

/* Process at most `instants` points in time. 1: there is more; 0: done; -1: no memory. */
int sluice_engine_run (struct sluice_engine *engine, uint64_t instants,
		       struct sluice_error *err);

/* One result a job, in the workload's order; valid as long as the engine. */
const struct sluice_job_result *sluice_engine_results (const struct sluice_engine *engine);

uint32_t
sluice_engine_ended (const struct sluice_engine *engine); /* jobs, for a progress bar */

#endif
