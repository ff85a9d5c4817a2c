/*
 * Room for a job of a higher tier (PreemptType=preempt/partition_prio).
 *
 * Victims are taken from the lowest tier, the latest start first, until the job fits
 * now; then those are spared, in the same order, without whom it still does.
 */
#include "state.h"

#include <stdlib.h>

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
		return run_change_plan (e, v->run, sign);
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

/* Mark whom the job needs; a is as before afterwards. 1: it can be done. */
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
		if (victims->list[i].is_needed && run_preempt (e, victims->list[i].run))
			return -1;
	return join_ends (e);
}
