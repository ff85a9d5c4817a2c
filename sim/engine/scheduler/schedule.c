/*
 * One pass over the waiting jobs: which start now, for which room is kept.
 *
 * A pass starts each job that fits from now to its limit among what runs, what is
 * leased and what was reserved before it in the same pass. The rules differ in which job
 * gets a reservation. What a pass found out stays true while time passes and jobs
 * only start; then the next one looks at new jobs alone.
 */
#include "state.h"

#include <math.h>
#include <stdlib.h>

static struct availability *
outlook (struct sluice_engine *e)
{
	return e->pass.has_plan ? &e->plan : &e->base;
}

/* The job's own licences and the policy's tokens, each licence once. */
static uint32_t
gather_needs (struct sluice_engine *e, uint32_t job)
{
	const struct sluice_replay_job *j = &e->workload->jobs[job];
	uint32_t count = j->license_count;
	for (uint32_t i = 0; i < count; i++)
		e->needs[i] = e->workload->license_needs[j->first_license + i];
	for (uint32_t t = 0; t < e->choices[job].token_count; t++) {
		const struct sluice_license_need *token = &e->choices[job].tokens[t];
		uint32_t i = 0;
		while (i < count && e->needs[i].license != token->license)
			i++;
		if (i == count)
			e->needs[count++] = *token;
		else
			e->needs[i].count += token->count;
	}
	return count;
}

static struct demand
demand_of (struct sluice_engine *e, uint32_t job)
{
	const struct sluice_replay_job *j = &e->workload->jobs[job];
	struct demand d = {
		.duration = j->limit,
		.groups
		= e->workload->machine.partitions[j->partition].groups & ~e->pass.closed,
		.slots = j->slots,
		.need_count = j->license_count,
		.first_license = e->workload->machine.group_count,
		.needs = e->workload->license_needs + j->first_license,
	};
	if (e->choices && e->choices[job].token_count) {
		d.need_count = gather_needs (e, job);
		d.needs = e->needs;
	}
	return d;
}

/* Whether the licences are there from now to the job's limit, whatever is reserved. */
static int
has_licenses (const struct sluice_engine *e, const struct demand *demand)
{
	int32_t take[MAX_COLUMNS];
	struct demand licenses = *demand;
	licenses.slots = 0;
	licenses.groups = 1;
	return !demand->need_count
	       || availability_earliest (&e->base, e->now, e->now, &licenses, take)
		      <= e->now;
}

static double
floor_to (double time, double resolution)
{
	return resolution > 0 && time < INFINITY ? floor (time / resolution) * resolution
						 : time;
}

static int
reserve (struct sluice_engine *e, double start, const struct demand *demand,
	 const int32_t *take)
{
	struct pass *p = &e->pass;
	double resolution = e->workload->scheduler.resolution;
	if (!p->has_plan) {
		if (availability_copy (&e->plan, &e->base))
			return -1;
		p->has_plan = 1;
	}
	if (start < p->next_start)
		p->next_start = start;
	double from = floor_to (start, resolution);
	double until = floor_to (start + demand->duration, resolution);
	return availability_change (&e->plan, from > e->now ? from : e->now, until, take,
				    -1);
}

/* Look at all waiting jobs again when the hold of one is over. */
static int
wake_at (struct sluice_engine *e, struct sluice_choice *choice)
{
	if (choice->wake > e->now && choice->wake <= choice->hold_until)
		return 0;
	choice->wake = choice->hold_until;
	if (choice->wake == INFINITY)
		return 0;
	e->waits_in_heap++;
	return events_push (&e->events, choice->wake, EVENT_LEASE, 0, 0);
}

/* Ask the policy about a job that could start: 1: it may; 0: it stays, or is held. */
static int
may_start (struct sluice_engine *e, uint32_t place)
{
	if (!e->policy || !e->policy->starting)
		return 1;
	uint32_t job = e->queue.job[place];
	struct sluice_choice *choice = &e->choices[job];
	e->pass.is_lasting = 0; /* it may answer otherwise next time */
	e->policy->starting (e->policy->self, e->now, job, choice);
	if (choice->not_before > e->now) {
		queue_remove (&e->queue, place);
		e->waiting_in[e->workload->jobs[job].partition]--;
		e->waits_in_heap++;
		return events_push (&e->events, choice->not_before, EVENT_ELIGIBLE, job, 0);
	}
	if (choice->hold_until > e->now)
		return wake_at (e, choice);
	struct demand demand = demand_of (e, job);
	return has_licenses (e, &demand);
}

static int
start (struct sluice_engine *e, uint32_t place, int32_t *take)
{
	uint32_t job = e->queue.job[place];
	struct demand demand = demand_of (e, job);
	for (uint32_t i = 0; i < demand.need_count; i++)
		take[demand.first_license + demand.needs[i].license]
		    = demand.needs[i].count;
	queue_remove (&e->queue, place);
	e->waiting_in[e->workload->jobs[job].partition]--;
	e->pass.is_lasting = 0;
	return run_start (e, job, take) || join_ends (e) ? -1 : 1;
}

static int
start_if_allowed (struct sluice_engine *e, uint32_t place, int32_t *take)
{
	int answer = may_start (e, place);
	return answer > 0 ? start (e, place, take) : answer;
}

/* The policy is asked before any job is preempted: a held job would preempt the same
 * jobs for ever. */
static int
start_instead (struct sluice_engine *e, uint32_t place, const struct demand *demand,
	       struct victims *victims, int32_t *take)
{
	int answer = may_start (e, place);
	if (answer > 0 && preempt_chosen (e, victims))
		answer = -1;
	free (victims->list);
	if (answer <= 0)
		return answer;
	availability_earliest (outlook (e), e->now, e->now, demand, take);
	return start (e, place, take);
}

/* The job cannot start now: keep room for it, or close the way for those behind. */
static int
block (struct sluice_engine *e, uint32_t partition, double start,
       const struct demand *demand, int32_t *take)
{
	struct pass *p = &e->pass;
	if (p->rule == SLUICE_BACKFILL_NONE) {
		p->is_blocked[partition] = 1;
		p->closed |= e->workload->machine.partitions[partition].groups;
		return 1;
	}
	if (p->is_blocked[partition])
		return 0;
	if (start == INFINITY) { /* beyond the window: time may bring it in */
		p->is_valid = p->is_lasting = 0;
		return 0;
	}
	if (p->rule == SLUICE_BACKFILL_EASY)
		p->is_blocked[partition] = 1;
	take_first_freed (e, start, demand, take);
	return reserve (e, start, demand, take) ? -1 : 1;
}

/* 1: the job started or stands in the way of others; 0: nothing changed. */
static int
visit (struct sluice_engine *e, uint32_t place)
{
	struct pass *p = &e->pass;
	uint32_t job = e->queue.job[place];
	const struct sluice_scheduler *s = &e->workload->scheduler;
	uint32_t partition = e->workload->jobs[job].partition;
	if (p->rule == SLUICE_BACKFILL_NONE && p->is_blocked[partition])
		return 0;
	struct demand demand = demand_of (e, job);
	int has_them = 1;
	if (demand.need_count) {
		has_them = has_licenses (e, &demand);
		if (!has_them && s->plan_licenses && p->rule == SLUICE_BACKFILL_NONE)
			p->is_stopped = 1;
		if (!has_them && (!s->plan_licenses || p->is_stopped))
			return 0;
		if (!s->plan_licenses)
			demand.need_count = 0;
	}
	int32_t take[MAX_COLUMNS];
	double latest = p->is_blocked[partition] ? e->now : e->now + s->window;
	double when = availability_earliest (outlook (e), e->now, latest, &demand, take);
	if (when > e->now && has_them && s->preemption != SLUICE_PREEMPT_OFF) {
		struct victims victims;
		int is_enough = preempt_choose (e, job, &demand, outlook (e), &victims);
		if (is_enough < 0)
			return -1;
		if (is_enough)
			return start_instead (e, place, &demand, &victims, take);
	}
	if (when <= e->now)
		return start_if_allowed (e, place, take);
	return block (e, partition, when, &demand, take);
}

/* What a waiting job must pass to be worth a visit, once each has a blocked one before. */
static struct opening
opening_for_the_rest (struct sluice_engine *e)
{
	const struct sluice_machine *machine = &e->workload->machine;
	struct opening widest = { 0 };
	if (e->pass.rule == SLUICE_BACKFILL_CONSERVATIVE
	    || e->workload->scheduler.preemption != SLUICE_PREEMPT_OFF)
		return queue_all;
	for (uint32_t i = 0; i < machine->partition_count; i++) {
		if (!e->waiting_in[i])
			continue;
		if (!e->pass.is_blocked[i])
			return queue_all;
		if (e->pass.rule == SLUICE_BACKFILL_NONE)
			continue;
		struct opening o = availability_opening (outlook (e), e->now,
							 machine->partitions[i].groups);
		widest.slots = o.slots > widest.slots ? o.slots : widest.slots;
		widest.later = o.later > widest.later ? o.later : widest.later;
		widest.horizon = o.horizon > widest.horizon ? o.horizon : widest.horizon;
	}
	return widest;
}

static int
walk (struct sluice_engine *e, uint32_t place)
{
	struct pass *p = &e->pass;
	int has_depth = e->workload->scheduler.depth > 0 && p->rule != SLUICE_BACKFILL_NONE;
	double depth = has_depth ? e->workload->scheduler.depth : INFINITY;
	if (has_depth) /* the next pass must count again from the top */
		p->is_valid = 0;
	struct opening opening = has_depth ? queue_all : opening_for_the_rest (e);
	for (place = queue_next (&e->queue, place, &opening); place < e->queue.end;
	     place = queue_next (&e->queue, place + 1, &opening)) {
		if (depth-- <= 0)
			break;
		int answer = visit (e, place);
		if (answer < 0)
			return -1;
		if (p->is_stopped)
			break;
		if (answer && !has_depth)
			opening = opening_for_the_rest (e);
	}
	return 0;
}

/* Forget what the last pass found out. */
static int
begin_anew (struct sluice_engine *e, enum sluice_backfill rule)
{
	struct pass *p = &e->pass;
	*p = (struct pass){ .next_start = INFINITY, .rule = rule, .is_valid = 1 };
	p->is_lasting = e->workload->scheduler.preemption == SLUICE_PREEMPT_OFF;
	if (!has_joined_ends (e, rule))
		return 0;
	for (uint32_t run = 0; run < e->run_count; run++)
		e->runs[run].planned_end = e->runs[run].expected_end;
	p->has_plan = 1;
	return availability_copy (&e->plan, &e->base) || join_ends (e) ? -1 : 0;
}

int
schedule_pass (struct sluice_engine *e, enum sluice_backfill rule)
{
	struct pass *p = &e->pass;
	uint32_t from = e->queue.end - p->new_count;
	p->new_count = 0;
	if (!p->is_valid || p->rule != rule || e->now >= p->next_start
	    || has_joined_ends (e, rule)) {
		if (begin_anew (e, rule))
			return -1;
		from = 0;
	} else if (p->has_plan) {
		availability_advance (&e->plan, e->now);
	}
	if (!e->queue.waiting || p->is_stopped)
		return 0;
	return walk (e, from);
}
