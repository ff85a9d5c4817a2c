/* A job starts, ends, is killed or gives way. */
#include <math.h>
#include <stdlib.h>

#include "state.h"

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
	if (run != NONE) {
		e->free_run = e->runs[run].job;
		return run;
	}
	if (e->run_count == e->run_capacity && grow_runs (e))
		return NONE;
	return e->run_count++;
}

/* Take the run's part from the plan (sign -1) from now on, or give it back (1). */
static int
change_plan (struct sluice_engine *e, uint32_t run, int32_t sign)
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
	return e->pass.has_plan ? change_plan (e, run, sign) : 0;
}

/* Where storage says when jobs end, only a limit is known beforehand. */
static int
has_event (const struct sluice_engine *e, const struct run *run)
{
	return !e->storage || run->expected_end < INFINITY;
}

/* What says when the job ends: storage, but for its limit; without storage its run time. */
static int
expect_end (struct sluice_engine *e, uint32_t run)
{
	const struct run *r = &e->runs[run];
	double end = r->expected_end;
	if (e->storage) {
		static const struct sluice_choice anywhere;
		const struct sluice_choice *choice
		    = e->choices ? &e->choices[r->job] : &anywhere;
		if (e->storage->start (e->storage->self, e->now, r->job, choice->lane_mask,
				       choice->block))
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
	if (run == NONE)
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

/* Within a pass. */
static int
preempt (struct sluice_engine *e, uint32_t run)
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

/*
 * Ends of running jobs as slurmctld's backfill sees them.
 *
 * To find out when a job could start, Slurm's select plugins take running jobs away
 * in the order of their limits and try after each window of time only: the first
 * window ends 30 s after the next multiple of 30 s, and each is twice as long as the
 * one before it and longer still where nothing ends in it (slurm.conf(5),
 * bf_window_linear). So a plan sees all ends of a window at the last one, and a
 * reservation takes what is free after the first window that leaves enough, also
 * where others' reservations let it begin only later.
 */

/* Let the plan see the slots of a run until `end`; its licences go with its limit. */
static int
move_planned_end (struct sluice_engine *e, uint32_t run, double end)
{
	struct run *r = &e->runs[run];
	double before = r->planned_end;
	int32_t slots[MAX_COLUMNS] = { 0 };
	for (uint32_t g = 0; g < e->workload->machine.group_count; g++)
		slots[g] = e->takes[(size_t)run * e->columns + g];
	r->planned_end = end;
	return end > before ? availability_change (&e->plan, before, end, slots, -1)
			    : availability_change (&e->plan, end, before, slots, 1);
}

static int
compare_ends (const void *left, const void *right)
{
	double a = ((const struct ending *)left)->time;
	double b = ((const struct ending *)right)->time;
	return (a > b) - (a < b);
}

/* Running jobs by the end of their limits, those without one left out. */
static uint32_t
sort_ends (const struct sluice_engine *e, struct ending *ends)
{
	uint32_t count = 0;
	for (uint32_t run = 0; run < e->run_count; run++)
		if (e->runs[run].serial && e->runs[run].expected_end < INFINITY)
			ends[count++] = (struct ending){ e->runs[run].expected_end, run };
	qsort (ends, count, sizeof *ends, compare_ends);
	return count;
}

int
has_joined_ends (const struct sluice_engine *e, uint32_t rule)
{
	return e->workload->scheduler.end_window > 0 && rule != SLUICE_BACKFILL_NONE;
}

int
join_ends (struct sluice_engine *e)
{
	double window = e->workload->scheduler.end_window;
	if (!has_joined_ends (e, e->pass.rule))
		return 0;
	struct ending *ends = malloc ((e->running + 1) * sizeof *ends);
	if (!ends)
		return -1;
	uint32_t count = sort_ends (e, ends);
	double origin = count ? (floor (ends[0].time / window) + 1) * window : 0;
	int answer = 0;
	e->window_count = 0;
	for (uint32_t first = 0, next; first < count && !answer; first = next) {
		while (ends[first].time > origin + window)
			window *= 2;
		next = first + 1;
		while (next < count && ends[next].time <= origin + window)
			next++;
		e->window_ends[e->window_count++] = ends[next - 1].time;
		for (uint32_t i = first; i < next && !answer; i++)
			answer = move_planned_end (e, ends[i].run, ends[next - 1].time);
		window *= 2;
	}
	free (ends);
	return answer;
}

/* Take the demand's slots, in the order of groups, of what is free both at `time`
 * alongside running jobs and in least[group]. 0: there are too few. */
static int
take_slots_at (const struct sluice_engine *e, double time, const struct demand *demand,
	       const int32_t *least, int32_t *take)
{
	int32_t free[SLUICE_MAX_GROUPS];
	int32_t rest = demand->slots;
	availability_least (&e->base, time, time, demand->groups, free);
	for (uint64_t g = demand->groups; g; g &= g - 1) {
		int group = __builtin_ctzll (g);
		int32_t part = free[group] < least[group] ? free[group] : least[group];
		part = part < 0 ? 0 : part;
		take[group] = part < rest ? part : rest;
		rest -= take[group];
	}
	return rest == 0;
}

void
take_first_freed (const struct sluice_engine *e, double start, const struct demand *demand,
		  int32_t *take)
{
	int32_t least[SLUICE_MAX_GROUPS];
	if (!has_joined_ends (e, e->pass.rule))
		return;
	availability_least (&e->plan, start, start + demand->duration, demand->groups,
			    least);
	int is_found = take_slots_at (e, e->now, demand, least, take);
	for (uint32_t i = 0; i < e->window_count && !is_found; i++)
		is_found = e->window_ends[i] < start
			   && take_slots_at (e, e->window_ends[i], demand, least, take);
	if (!is_found)
		take_slots_at (e, start, demand, least, take);
}

/*
 * Room for a job of a higher tier (PreemptType=preempt/partition_prio).
 *
 * Victims are taken from the lowest tier, the latest start first, until the job fits
 * now; then those are spared, in the same order, without which it still does.
 */

static int
compare (const void *left, const void *right)
{
	const struct victim *a = left, *b = right;
	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	if (a->start != b->start)
		return a->start > b->start ? -1 : 1;
	return a->job > b->job ? -1 : 1;
}

static int
change (struct sluice_engine *e, struct availability *a, const struct victim *v,
	int32_t sign)
{
	if (a == &e->plan)
		return change_plan (e, v->run, sign);
	return availability_change (a, e->now, e->runs[v->run].expected_end,
				    e->takes + (size_t)v->run * e->columns, sign);
}

static uint32_t
collect (const struct sluice_engine *e, uint32_t job, struct victim *victims)
{
	const struct sluice_workload *w = e->workload;
	const struct sluice_replay_partition *own
	    = &w->machine.partitions[w->jobs[job].partition];
	uint32_t count = 0;
	for (uint32_t run = 0; run < e->run_count; run++) {
		if (!e->runs[run].serial)
			continue;
		uint32_t other = e->runs[run].job;
		const struct sluice_replay_partition *its
		    = &w->machine.partitions[w->jobs[other].partition];
		if (its->tier >= own->tier || !(its->groups & own->groups))
			continue;
		victims[count++]
		    = (struct victim){ e->results[other].start, its->tier, other, run, 0 };
	}
	qsort (victims, count, sizeof *victims, compare);
	return count;
}

static int
fits (struct sluice_engine *e, const struct availability *a, const struct demand *demand)
{
	int32_t take[MAX_COLUMNS];
	return availability_earliest (a, e->now, e->now, demand, take) <= e->now;
}

/* Mark the jobs that it needs to preempt; a is as before afterwards. 1: it can be done. */
static int
choose (struct sluice_engine *e, struct victim *victims, uint32_t count,
	const struct demand *demand, struct availability *a)
{
	uint32_t chosen = 0;
	int is_enough = 0;
	while (chosen < count && !is_enough) {
		struct victim *v = &victims[chosen++];
		v->is_needed = 1;
		if (change (e, a, v, 1))
			return -1;
		is_enough = fits (e, a, demand);
	}
	for (uint32_t i = 0; is_enough && i + 1 < chosen; i++) {
		if (change (e, a, &victims[i], -1))
			return -1;
		victims[i].is_needed = !fits (e, a, demand);
		if (victims[i].is_needed && change (e, a, &victims[i], 1))
			return -1;
	}
	for (uint32_t i = 0; i < chosen; i++)
		if (victims[i].is_needed && change (e, a, &victims[i], -1))
			return -1;
	return is_enough;
}

int
preempt_choose (struct sluice_engine *e, uint32_t job, const struct demand *demand,
		struct availability *a, struct victims *out)
{
	if (!e->running)
		return 0;
	out->list = malloc (e->running * sizeof *out->list);
	if (!out->list)
		return -1;
	out->count = collect (e, job, out->list);
	int answer = choose (e, out->list, out->count, demand, a);
	if (answer <= 0)
		free (out->list);
	return answer;
}

int
preempt_chosen (struct sluice_engine *e, const struct victims *victims)
{
	for (uint32_t i = 0; i < victims->count; i++)
		if (victims->list[i].is_needed && preempt (e, victims->list[i].run))
			return -1;
	return join_ends (e);
}
