/*
 * The event loop. At one instant happen, in this order: ends of jobs, leases, jobs
 * that become eligible, submissions; then the main pass; then, when it is due, the
 * backfill pass.
 */
#include "engine.h"

#include <math.h>
#include <stdlib.h>

#include "state.h"

static int
prepare_leases (struct sluice_engine *e)
{
	const struct sluice_workload *w = e->workload;
	for (uint32_t i = 0; i < w->lease_count; i++) {
		const struct sluice_lease *lease = &w->leases[i];
		int32_t amount[MAX_COLUMNS] = { 0 };
		amount[lease->group ? lease->group - 1
				    : w->machine.group_count + lease->license]
		    = lease->amount;
		if (availability_change (&e->base, lease->from, lease->until, amount, -1)
		    || events_push (&e->events, lease->from, EVENT_LEASE, i, 0))
			return -1;
		e->waits_in_heap++;
		if (lease->until == INFINITY)
			continue;
		if (events_push (&e->events, lease->until, EVENT_LEASE, i, 0))
			return -1;
		e->waits_in_heap++;
	}
	return 0;
}

static int
prepare_jobs (struct sluice_engine *e)
{
	uint32_t count = e->workload->job_count;
	e->results = malloc ((count + 1) * sizeof *e->results);
	e->run_of = malloc ((count + 1) * sizeof *e->run_of);
	if (e->policy)
		e->choices = calloc (count + 1, sizeof *e->choices);
	if (!e->results || !e->run_of || (e->policy && !e->choices))
		return -1;
	for (uint32_t i = 0; i < count; i++)
		e->results[i]
		    = (struct sluice_job_result){ .eligible = -1, .start = -1, .end = -1 };
	return 0;
}

static int
prepare_machine (struct sluice_engine *e)
{
	const struct sluice_machine *m = &e->workload->machine;
	int32_t free[MAX_COLUMNS];
	e->columns = m->group_count + m->license_count;
	for (uint32_t i = 0; i < m->group_count; i++)
		free[i] = m->group_slots[i];
	for (uint32_t i = 0; i < m->license_count; i++)
		free[m->group_count + i] = m->licenses[i];
	return availability_init (&e->base, e->columns, free)
	       || availability_init (&e->plan, e->columns, free);
}

struct sluice_engine *
sluice_engine_new (const struct sluice_workload *workload,
		   const struct sluice_replay_storage *storage,
		   const struct sluice_replay_policy *policy, struct sluice_error *err)
{
	if (sluice_workload_check (workload, err))
		return NULL;
	struct sluice_engine *e = calloc (1, sizeof *e);
	if (e) {
		e->workload = workload;
		e->storage = storage;
		e->policy = policy;
		e->free_run = NONE;
		e->origin = workload->job_count ? workload->jobs[0].submit : 0;
		if (prepare_jobs (e) || prepare_machine (e) || prepare_leases (e)
		    || eligibility_init (e)
		    || priority_init (&e->priority, workload, e->origin)) {
			sluice_engine_destroy (e);
			e = NULL;
		}
	}
	if (!e)
		sluice_fail (err, "no memory for %u jobs", workload->job_count);
	else if (storage && policy && policy->begins)
		policy->begins (policy->self, storage);
	return e;
}

void
sluice_engine_destroy (struct sluice_engine *e)
{
	if (!e)
		return;
	events_release (&e->events);
	queue_release (&e->queue);
	priority_release (&e->priority);
	eligibility_release (&e->eligibility);
	availability_release (&e->base);
	availability_release (&e->plan);
	free (e->runs);
	free (e->takes);
	free (e->run_of);
	free (e->victims);
	free (e->choices);
	free (e->results);
	free (e);
}

const struct sluice_job_result *
sluice_engine_results (const struct sluice_engine *e)
{
	return e->results;
}

uint32_t
sluice_engine_ended (const struct sluice_engine *e)
{
	return e->ended;
}

static int
is_possible (const struct sluice_workload *w, const struct sluice_replay_job *j)
{
	int64_t slots = 0;
	for (uint64_t g = w->machine.partitions[j->partition].groups; g; g &= g - 1)
		slots += w->machine.group_slots[__builtin_ctzll (g)];
	for (uint32_t i = 0; i < j->license_count; i++) {
		const struct sluice_license_need *need
		    = &w->license_needs[j->first_license + i];
		if (need->count > w->machine.licenses[need->license])
			return 0;
	}
	return slots >= j->slots;
}

static int
submit (struct sluice_engine *e)
{
	uint32_t job = e->next_submit++;
	if (is_possible (e->workload, &e->workload->jobs[job]))
		return eligible_submitted (e, job);
	e->results[job].state = SLUICE_JOB_IMPOSSIBLE;
	e->ended++;
	return eligible_ended (e, job);
}

static enum sluice_job_state
state_at_end (const struct sluice_engine *e, uint32_t job)
{
	return e->workload->jobs[job].fails ? SLUICE_JOB_FAILED : SLUICE_JOB_COMPLETED;
}

/* The end of a run that ended otherwise before. */
static int
is_stale (const struct sluice_engine *e, const struct event *event)
{
	return event_kind (event) == EVENT_END
	       && e->runs[event->what].serial != event->serial;
}

/* An end that will not come is no instant: a pass at its time would look once more. */
static void
forget_stale_events (struct sluice_engine *e)
{
	while (e->events.count && is_stale (e, &e->events.heap[0]))
		events_pop (&e->events);
}

/* A run reaches its limit, or its end where no storage says when that is. */
static int
end_of_run (struct sluice_engine *e, const struct event *event)
{
	const struct run *run = &e->runs[event->what];
	const struct sluice_replay_job *j = &e->workload->jobs[run->job];
	if (e->storage) {
		e->storage->stop (e->storage->self, e->now, run->job);
		return run_end (e, event->what, SLUICE_JOB_TIMEOUT);
	}
	return run_end (e, event->what,
			j->runtime > j->limit ? SLUICE_JOB_TIMEOUT
					      : state_at_end (e, run->job));
}

static int
happen (struct sluice_engine *e, const struct event *event)
{
	switch (event_kind (event)) {
	case EVENT_END:
		return is_stale (e, event) ? 0 : end_of_run (e, event);
	case EVENT_LEASE:
		e->waits_in_heap--;
		e->pass.is_valid = 0;
		return 0;
	case EVENT_ELIGIBLE:
		e->waits_in_heap--;
		return eligible_now (e, event->what);
	case EVENT_PRIORITY:
		e->has_period = 0;
		return 0;
	case EVENT_BACKFILL:
		e->has_tick = 0;
		break;
	}
	return 0;
}

static int
rank_anew (struct sluice_engine *e)
{
	struct queue *q = &e->queue;
	for (uint32_t i = q->start; i < q->end; i++)
		if (q->slots[i] != QUEUE_EMPTY)
			q->rank[i] = priority_rank (&e->priority, q->job[i],
						    e->results[q->job[i]].eligible, e->now);
	e->pass.is_valid = 0;
	e->is_quiet = 0;
	return queue_sort (q);
}

static int
begin_instant (struct sluice_engine *e, double now)
{
	e->now = now;
	availability_advance (&e->base, now);
	if (e->workload->scheduler.priority == SLUICE_PRIORITY_FIFO
	    || now < e->priority.period_end)
		return 0;
	priority_advance (&e->priority, now);
	return e->queue.waiting ? rank_anew (e) : 0;
}

/* Jobs that storage ends by `until`: all of its first such instant. 1: there were some. */
static int
end_by_storage (struct sluice_engine *e, double until)
{
	struct sluice_replay_storage_end end;
	int is_any = 0;
	while (e->running && e->storage->run (e->storage->self, until, &end)) {
		if (!is_any && begin_instant (e, end.time))
			return -1;
		is_any = 1;
		until = end.time;
		if (run_end (e, e->run_of[end.job], state_at_end (e, end.job)))
			return -1;
	}
	return is_any;
}

static int
pass_until_settled (struct sluice_engine *e, enum sluice_backfill rule)
{
	do {
		if (schedule_pass (e, rule))
			return -1;
		if (!e->victim_count)
			return 0;
	} while (run_settle_victims (e) == 0);
	return -1;
}

static int
schedule (struct sluice_engine *e, int is_tick)
{
	const struct sluice_scheduler *s = &e->workload->scheduler;
	if (s->interval == 0)
		return pass_until_settled (e, s->backfill);
	if (e->is_quiet && e->now < e->settled_until)
		return 0;
	e->settled_until = -INFINITY;
	if (pass_until_settled (e, SLUICE_BACKFILL_NONE))
		return -1;
	if (!is_tick)
		return 0;
	if (pass_until_settled (e, s->backfill))
		return -1;
	if (e->pass.is_lasting)
		e->settled_until = e->pass.next_start;
	return 0;
}

/* Waiting jobs need the clock: the next backfill pass, the next priorities. Not where
 * nothing else will ever happen and this tick has started no job. */
static int
wind_clock (struct sluice_engine *e, int is_idle_tick)
{
	const struct sluice_scheduler *s = &e->workload->scheduler;
	int is_last
	    = !e->waits_in_heap && !e->running && e->next_submit == e->workload->job_count;
	if (!e->queue.waiting || (is_last && is_idle_tick))
		return 0;
	if (s->interval > 0 && s->backfill != SLUICE_BACKFILL_NONE && !e->has_tick) {
		double ticks = floor ((e->now - e->origin) / s->interval) + 1;
		e->has_tick = 1;
		if (events_push (&e->events, e->origin + ticks * s->interval,
				 EVENT_BACKFILL, 0, 0))
			return -1;
	}
	if (s->priority == SLUICE_PRIORITY_FIFO || e->has_period || is_last)
		return 0;
	e->has_period = 1;
	return events_push (&e->events, e->priority.period_end, EVENT_PRIORITY, 0, 0);
}

/* One instant. 1: there may be more, 0: nothing is left to happen, -1: no memory. */
static int
step (struct sluice_engine *e)
{
	const struct sluice_workload *w = e->workload;
	forget_stale_events (e);
	double next
	    = e->next_submit < w->job_count ? w->jobs[e->next_submit].submit : INFINITY;
	if (e->events.count && e->events.heap[0].time < next)
		next = e->events.heap[0].time;
	int has_ended = e->storage ? end_by_storage (e, next) : 0;
	if (has_ended < 0)
		return -1;
	e->is_quiet = !has_ended;
	if (!has_ended) {
		if (next == INFINITY)
			return 0;
		if (begin_instant (e, next))
			return -1;
	}
	int is_tick = 0;
	while (e->events.count && e->events.heap[0].time <= e->now) {
		struct event event = events_pop (&e->events);
		if (event_kind (&event) == EVENT_BACKFILL)
			is_tick = 1;
		else
			e->is_quiet = 0;
		if (happen (e, &event))
			return -1;
	}
	while (e->next_submit < w->job_count && w->jobs[e->next_submit].submit <= e->now) {
		e->is_quiet = 0;
		if (submit (e))
			return -1;
	}
	uint32_t waiting = e->queue.waiting;
	if (schedule (e, is_tick))
		return -1;
	return wind_clock (e, is_tick && waiting == e->queue.waiting) ? -1 : 1;
}

int
sluice_engine_run (struct sluice_engine *e, uint64_t instants, struct sluice_error *err)
{
	for (; instants > 0; instants--) {
		int answer = step (e);
		if (answer < 0)
			return sluice_fail (err, "no memory left for the replay");
		if (answer == 0)
			return 0;
	}
	return 1;
}
