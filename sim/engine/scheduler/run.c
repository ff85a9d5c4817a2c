/* A job starts, ends, is killed or gives way. */
#include "state.h"

#include <math.h>
#include <stdlib.h>

static int
grow_runs (struct sluice_engine *e)
{
	uint32_t capacity = e->run_capacity ? e->run_capacity * 2 : 64;
	struct run *runs = realloc (e->runs, capacity * sizeof *runs);
	if (runs)
		e->runs = runs;
	int32_t *takes = realloc (e->takes, (size_t)capacity * e->columns * sizeof *takes);
	if (takes)
		e->takes = takes;
	if (!runs || !takes)
		return -1;
	e->run_capacity = capacity;
	return 0;
}

static uint32_t
new_run (struct sluice_engine *e)
{
	uint32_t run = e->free_run;
	if (run != NOBODY) {
		e->free_run = e->runs[run].job;
		return run;
	}
	if (e->run_count == e->run_capacity && grow_runs (e))
		return NOBODY;
	return e->run_count++;
}

int
run_change_plan (struct sluice_engine *e, uint32_t run, int32_t sign)
{
	const struct run *r = &e->runs[run];
	const int32_t *take = e->takes + (size_t)run * e->columns;
	if (availability_change (&e->plan, e->now, r->expected_end, take, sign))
		return -1;
	if (r->planned_end == r->expected_end)
		return 0;
	int32_t slots[MAX_COLUMNS] = { 0 };
	for (uint32_t g = 0; g < e->workload->machine.group_count; g++)
		slots[g] = take[g];
	return availability_change (&e->plan, r->expected_end, r->planned_end, slots, sign);
}

/* Take from, or return to, all that the scheduler counts. */
static int
change_free (struct sluice_engine *e, uint32_t run, int32_t sign)
{
	const int32_t *take = e->takes + (size_t)run * e->columns;
	if (availability_change (&e->base, e->now, e->runs[run].expected_end, take, sign))
		return -1;
	return e->pass.has_plan ? run_change_plan (e, run, sign) : 0;
}

/* Where storage says when jobs end, only a limit is known beforehand. */
static int
has_event (const struct sluice_engine *e, const struct run *run)
{
	return !e->storage || run->expected_end < INFINITY;
}

/* Who says when the job ends: storage, but for its limit; without storage its run time. */
static int
expect_end (struct sluice_engine *e, uint32_t run)
{
	const struct run *r = &e->runs[run];
	double end = r->expected_end;
	if (e->storage) {
		uint32_t lanes = e->choices ? e->choices[r->job].lane_mask : 0;
		if (e->storage->start (e->storage->self, e->now, r->job, lanes))
			return -1;
	} else if (e->now + e->workload->jobs[r->job].runtime < end) {
		end = e->now + e->workload->jobs[r->job].runtime;
	}
	if (!has_event (e, r))
		return 0;
	e->waits_in_heap++;
	return events_push (&e->events, end, EVENT_END, run, r->serial);
}

int
run_start (struct sluice_engine *e, uint32_t job, const int32_t *take)
{
	const struct sluice_replay_job *j = &e->workload->jobs[job];
	struct sluice_job_result *result = &e->results[job];
	uint32_t run = new_run (e);
	if (run == NOBODY)
		return -1;
	double until = e->now + j->limit;
	e->runs[run] = (struct run){ until, until, job, ++e->serial };
	for (uint32_t c = 0; c < e->columns; c++)
		e->takes[(size_t)run * e->columns + c] = take[c];
	e->running++;
	e->run_of[job] = run;
	result->start = e->now;
	result->state = SLUICE_JOB_RUNNING;
	priority_started (&e->priority, job, e->now);
	if (change_free (e, run, -1) || expect_end (e, run))
		return -1;
	if (result->restarts == 0 && eligible_started (e, job))
		return -1;
	if (e->policy && e->policy->started)
		e->policy->started (e->policy->self, e->now, job);
	return 0;
}

/* Return what the run has. */
static int
release (struct sluice_engine *e, uint32_t run)
{
	struct run *r = &e->runs[run];
	if (change_free (e, run, 1))
		return -1;
	if (has_event (e, r))
		e->waits_in_heap--;
	priority_ended (&e->priority, r->job, e->now);
	if (e->policy && e->policy->ended)
		e->policy->ended (e->policy->self, e->now, r->job);
	r->serial = 0;
	r->job = e->free_run;
	e->free_run = run;
	e->running--;
	return 0;
}

int
run_end (struct sluice_engine *e, uint32_t run, enum sluice_job_state state)
{
	uint32_t job = e->runs[run].job;
	if (release (e, run))
		return -1;
	e->pass.is_valid = 0;
	e->results[job].end = e->now;
	e->results[job].state = state;
	e->ended++;
	return eligible_ended (e, job);
}

int
run_preempt (struct sluice_engine *e, uint32_t run)
{
	uint32_t job = e->runs[run].job;
	struct sluice_job_result *result = &e->results[job];
	if (e->victim_count == e->victim_capacity) {
		uint32_t capacity = e->victim_capacity ? e->victim_capacity * 2 : 16;
		uint32_t *victims = realloc (e->victims, capacity * sizeof *victims);
		if (!victims)
			return -1;
		e->victims = victims;
		e->victim_capacity = capacity;
	}
	if (e->storage)
		e->storage->stop (e->storage->self, e->now, job);
	if (release (e, run))
		return -1;
	e->victims[e->victim_count++] = job;
	if (e->workload->scheduler.preemption == SLUICE_PREEMPT_CANCEL) {
		result->end = e->now;
		result->state = SLUICE_JOB_PREEMPTED;
		return 0;
	}
	result->lost += e->now - result->start;
	result->restarts++;
	result->start = -1;
	result->state = SLUICE_JOB_WAITING;
	return 0;
}

int
run_settle_victims (struct sluice_engine *e)
{
	for (uint32_t i = 0; i < e->victim_count; i++) {
		uint32_t job = e->victims[i];
		if (e->results[job].state == SLUICE_JOB_WAITING) {
			if (eligible_enqueue (e, job))
				return -1;
			continue;
		}
		e->ended++;
		if (eligible_ended (e, job))
			return -1;
	}
	e->victim_count = 0;
	e->pass.is_valid = 0;
	return 0;
}
