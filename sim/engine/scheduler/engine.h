/*
 * The replay engine: when would each job have started and ended?
 *
 * Event-driven and deterministic: no clock, no globals, no threads; engines in
 * different threads do not share anything. Memory grows with jobs, not with time.
 */
#ifndef SLUICE_ENGINE_H
#define SLUICE_ENGINE_H

#include "hooks.h"
#include "workload.h"

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
