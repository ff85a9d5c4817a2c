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
#include "state.h"

#include <math.h>
#include <stdlib.h>

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
