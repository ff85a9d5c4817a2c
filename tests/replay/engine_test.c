/* The engine with storage and a policy plugged in, for sanitizers and valgrind. */
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { JOBS = 150, LICENSE_TOTAL = 3 };

static struct sluice_replay_job jobs[JOBS];
static const struct sluice_license_need needs[] = { { 0, 1 } };

/* Storage that makes each job twice as long; tells ends in the order of time. */
struct storage {
	double end[JOBS]; /* INFINITY: does not run */
	uint32_t starts, stops;
};

static int
storage_start (void *self, double now, uint32_t job, uint32_t lane_mask,
	       struct sluice_block block)
{
	struct storage *s = self;
	CHECK (block.count == (lane_mask ? 4 : 0));
	CHECK (s->end[job] == INFINITY);
	CHECK (lane_mask == 0 || lane_mask == 5);
	s->end[job] = now + 2 * jobs[job].runtime;
	s->starts++;
	return 0;
}

static void
storage_stop (void *self, double now, uint32_t job)
{
	struct storage *s = self;
	CHECK (s->end[job] > now);
	s->end[job] = INFINITY;
	s->stops++;
}

static int
storage_run (void *self, double until, struct sluice_replay_storage_end *end)
{
	struct storage *s = self;
	uint32_t first = 0;
	for (uint32_t i = 1; i < JOBS; i++)
		if (s->end[i] < s->end[first])
			first = i;
	if (s->end[first] > until || s->end[first] == INFINITY)
		return 0;
	*end = (struct sluice_replay_storage_end){ .time = s->end[first], .job = first };
	s->end[first] = INFINITY;
	return 1;
}

/* A policy that lets jobs start at full minutes only, each with a token. */
static void
policy_submitted (void *self, double now, uint32_t job, struct sluice_choice *choice)
{
	uint32_t *calls = self;
	calls[0]++;
	CHECK (now >= jobs[job].submit);
	CHECK (choice->token_count == 0);
	choice->lane_mask = 5;
	choice->block = (struct sluice_block){ 8, 4 };
	choice->token_count = 1;
	choice->tokens[0] = (struct sluice_license_need){ 0, 1 };
}

static void
policy_starting (void *self, double now, uint32_t job, struct sluice_choice *choice)
{
	(void)self;
	(void)job;
	choice->not_before = ceil (now / 60) * 60;
}

static void
policy_counts_start (void *self, double now, uint32_t job)
{
	(void)now;
	(void)job;
	((uint32_t *)self)[1]++;
}

static void
policy_counts_end (void *self, double now, uint32_t job)
{
	(void)now;
	(void)job;
	((uint32_t *)self)[2]++;
}

static void
policy_begins (void *self, const struct sluice_replay_storage *storage)
{
	CHECK (storage->run == storage_run);
	CHECK (((uint32_t *)self)[0] == 0);
}

static void
make_jobs (void)
{
	uint32_t seed = 7;
	double submit = 0;
	for (uint32_t i = 0; i < JOBS; i++) {
		seed = seed * 1103515245u + 12345u;
		submit += seed % 50;
		jobs[i] = (struct sluice_replay_job){
			.submit = submit,
			.runtime = seed / 64 % 200,
			.limit = 1 + seed / 64 % 700,
			.slots = 1 + (int32_t)(seed / 4096 % 6),
			.partition = seed / 512 % 2,
			.license_count = seed % 7 == 0,
		};
	}
}

static struct sluice_workload
make_workload (void)
{
	struct sluice_workload w = {
		.jobs = jobs,
		.license_needs = needs,
		.job_count = JOBS,
		.license_need_count = 1,
		.machine
		= { .group_count = 2,
		    .partition_count = 2,
		    .license_count = 1,
		    .group_slots = { 8, 4 },
		    .licenses = { LICENSE_TOTAL },
		    .partitions = { { .groups = 3 }, { .groups = 2, .tier = 1 } } },
	};
	sluice_scheduler_init (&w.scheduler);
	return w;
}

static void
run (const struct sluice_workload *w, struct storage *storage, uint32_t *calls)
{
	struct sluice_replay_storage table
	    = { storage, storage_start, storage_stop, storage_run, NULL };
	struct sluice_replay_policy policy = { calls,
					       policy_submitted,
					       policy_starting,
					       policy_counts_start,
					       policy_counts_end,
					       policy_begins };
	struct sluice_error err;
	struct sluice_engine *e
	    = sluice_engine_new (w, storage ? &table : NULL, calls ? &policy : NULL, &err);
	CHECK (e != NULL);
	while (sluice_engine_run (e, 10, &err) == 1)
		;
	const struct sluice_job_result *results = sluice_engine_results (e);
	CHECK (sluice_engine_ended (e) == JOBS);
	int held = 0;
	for (uint32_t i = 0; i < JOBS; i++) {
		if (results[i].state == SLUICE_JOB_IMPOSSIBLE)
			continue;
		CHECK (results[i].end >= results[i].start
		       && results[i].start >= jobs[i].submit);
		CHECK (results[i].end <= results[i].start + jobs[i].limit);
		CHECK (!calls || fmod (results[i].start, 60) == 0);
		for (uint32_t k = 0; k < JOBS; k++)
			held += k != i && results[k].start <= results[i].start
				&& results[k].end > results[i].start;
		CHECK (!calls || held < LICENSE_TOTAL);
		held = 0;
	}
	sluice_engine_destroy (e);
}

static struct storage *
new_storage (void)
{
	static struct storage storage;
	memset (&storage, 0, sizeof storage);
	for (uint32_t i = 0; i < JOBS; i++)
		storage.end[i] = INFINITY;
	return &storage;
}

int
main (void)
{
	make_jobs ();
	struct sluice_workload w = make_workload ();
	for (w.scheduler.backfill = 0; w.scheduler.backfill <= 2; w.scheduler.backfill++)
		for (w.scheduler.plan_licenses = 0; w.scheduler.plan_licenses <= 1;
		     w.scheduler.plan_licenses++)
			for (w.scheduler.interval = 0; w.scheduler.interval <= 30;
			     w.scheduler.interval += 30) {
				uint32_t calls[3] = { 0 };
				w.scheduler.end_window = w.scheduler.interval;
				run (&w, NULL, NULL);
				run (&w, new_storage (), NULL);
				run (&w, new_storage (), calls);
				CHECK (calls[0] <= JOBS && calls[1] == calls[2]);
			}
	sluice_scheduler_init (&w.scheduler);
	w.scheduler.preemption = SLUICE_PREEMPT_REQUEUE;
	w.scheduler.end_window = 30;
	struct storage *storage = new_storage ();
	run (&w, storage, NULL);
	CHECK (storage->stops > 0 && storage->starts > JOBS / 2);
	sluice_engine_destroy (NULL);
	return check_report ();
}
