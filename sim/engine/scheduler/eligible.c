/* Who may enter the queue: begin times, dependencies, limits of arrays. */
#include "state.h"

#include <stdlib.h>

static int
index_dependencies (struct sluice_engine *e)
{
	const struct sluice_workload *w = e->workload;
	struct eligibility *l = &e->eligibility;
	l->unmet = calloc (w->job_count + 1, sizeof *l->unmet);
	l->ready = calloc (w->job_count + 1, sizeof *l->ready);
	l->first_dependent = calloc ((size_t)w->job_count + 2, sizeof *l->first_dependent);
	l->dependents = calloc (w->dependency_count, sizeof *l->dependents);
	l->dependency_owner = calloc (w->dependency_count, sizeof *l->dependency_owner);
	if (!l->unmet || !l->ready || !l->first_dependent || !l->dependents
	    || !l->dependency_owner)
		return -1;
	uint32_t *next = l->first_dependent + 1; /* counts, then ends, then beginnings */
	for (uint32_t job = 0; job < w->job_count; job++) {
		const struct sluice_replay_job *j = &w->jobs[job];
		l->unmet[job] = j->dependency_count;
		for (uint32_t i = 0; i < j->dependency_count; i++) {
			l->dependency_owner[j->first_dependency + i] = job;
			next[w->dependencies[j->first_dependency + i].job]++;
		}
	}
	uint32_t sum = 0;
	for (uint32_t job = 0; job < w->job_count; job++) {
		uint32_t count = next[job];
		next[job] = sum;
		sum += count;
	}
	for (uint32_t job = 0; job < w->job_count; job++) {
		const struct sluice_replay_job *j = &w->jobs[job];
		for (uint32_t i = 0; i < j->dependency_count; i++) {
			uint32_t dependency = j->first_dependency + i;
			l->dependents[next[w->dependencies[dependency].job]++] = dependency;
		}
	}
	return 0;
}

static int
prepare_arrays (struct sluice_engine *e)
{
	const struct sluice_workload *w = e->workload;
	struct eligibility *l = &e->eligibility;
	l->array_active = calloc (w->array_count, sizeof *l->array_active);
	l->array_head = malloc (w->array_count * sizeof *l->array_head);
	l->array_tail = malloc (w->array_count * sizeof *l->array_tail);
	l->next_held = malloc (w->job_count * sizeof *l->next_held);
	if (!l->array_active || !l->array_head || !l->array_tail || !l->next_held)
		return -1;
	for (uint32_t i = 0; i < w->array_count; i++)
		l->array_head[i] = l->array_tail[i] = NOBODY;
	return 0;
}

int
eligibility_init (struct sluice_engine *e)
{
	if (e->workload->dependency_count && index_dependencies (e))
		return -1;
	if (e->workload->array_count && prepare_arrays (e))
		return -1;
	return 0;
}

void
eligibility_release (struct eligibility *l)
{
	free (l->unmet);
	free (l->ready);
	free (l->first_dependent);
	free (l->dependents);
	free (l->dependency_owner);
	free (l->array_active);
	free (l->array_head);
	free (l->array_tail);
	free (l->next_held);
	*l = (struct eligibility){ 0 };
}

int
eligible_enqueue (struct sluice_engine *e, uint32_t job)
{
	const struct sluice_replay_job *j = &e->workload->jobs[job];
	struct sluice_job_result *result = &e->results[job];
	if (result->eligible < 0) {
		result->eligible = e->now;
		if (e->policy && e->policy->submitted)
			e->policy->submitted (e->policy->self, e->now, job,
					      &e->choices[job]);
	}
	uint64_t rank = priority_rank (&e->priority, job, result->eligible, e->now);
	int64_t place = queue_insert (&e->queue, rank, job, j->slots, j->limit);
	if (place < 0)
		return -1;
	e->waiting_in[j->partition]++;
	e->pass.new_count++;
	if (place + 1 != e->queue.end)
		e->pass.is_valid = 0;
	return 0;
}

static void
hold_back (struct eligibility *l, uint32_t array, uint32_t job)
{
	l->next_held[job] = NOBODY;
	if (l->array_tail[array] == NOBODY)
		l->array_head[array] = job;
	else
		l->next_held[l->array_tail[array]] = job;
	l->array_tail[array] = job;
}

/* Nothing but its array's limit may hold the job back now. */
int
eligible_now (struct sluice_engine *e, uint32_t job)
{
	struct eligibility *l = &e->eligibility;
	uint32_t array = e->workload->jobs[job].array;
	if (array == 0 || e->results[job].eligible >= 0) /* it counts already */
		return eligible_enqueue (e, job);
	uint32_t limit = e->workload->array_limits[array - 1];
	if (limit > 0 && l->array_active[array - 1] >= limit) {
		hold_back (l, array - 1, job);
		return 0;
	}
	l->array_active[array - 1]++;
	return eligible_enqueue (e, job);
}

/* The job's dependencies are met: let it in at its time. During a pass the queue must
 * not change, so even a job that may enter now does so by an event. */
static int
let_in (struct sluice_engine *e, uint32_t job, int in_pass)
{
	double time = e->workload->jobs[job].begin;
	if (e->results[job].state == SLUICE_JOB_IMPOSSIBLE)
		return 0;
	if (e->eligibility.ready && e->eligibility.ready[job] > time)
		time = e->eligibility.ready[job];
	if (time <= e->now && !in_pass)
		return eligible_now (e, job);
	e->waits_in_heap++;
	return events_push (&e->events, time > e->now ? time : e->now, EVENT_ELIGIBLE, job,
			    0);
}

int
eligible_submitted (struct sluice_engine *e, uint32_t job)
{
	if (e->eligibility.unmet && e->eligibility.unmet[job] > 0)
		return 0;
	return let_in (e, job, 0);
}

static int
is_met_by_end (enum sluice_dependency_kind kind, enum sluice_job_state state)
{
	switch (kind) {
	case SLUICE_AFTER_OK:
		return state == SLUICE_JOB_COMPLETED;
	case SLUICE_AFTER_NOT_OK:
		return state != SLUICE_JOB_COMPLETED;
	case SLUICE_AFTER_ANY:
		return 1;
	case SLUICE_AFTER_START:
		break; /* met at the start, but for a job that never starts */
	}
	return state == SLUICE_JOB_IMPOSSIBLE;
}

static int
settle (struct sluice_engine *e, uint32_t job, int has_ended)
{
	struct eligibility *l = &e->eligibility;
	if (!l->unmet)
		return 0;
	for (uint32_t i = l->first_dependent[job]; i < l->first_dependent[job + 1]; i++) {
		const struct sluice_dependency *d
		    = &e->workload->dependencies[l->dependents[i]];
		uint32_t owner = l->dependency_owner[l->dependents[i]];
		int is_met = has_ended ? is_met_by_end (d->kind, e->results[job].state)
				       : d->kind == SLUICE_AFTER_START;
		if (!is_met)
			continue;
		if (e->now + d->delay > l->ready[owner])
			l->ready[owner] = e->now + d->delay;
		if (--l->unmet[owner] == 0 && owner < e->next_submit
		    && let_in (e, owner, !has_ended))
			return -1;
	}
	return 0;
}

int
eligible_started (struct sluice_engine *e, uint32_t job)
{
	return settle (e, job, 0);
}

int
eligible_ended (struct sluice_engine *e, uint32_t job)
{
	if (settle (e, job, 1))
		return -1;
	struct eligibility *l = &e->eligibility;
	uint32_t array = e->workload->jobs[job].array;
	if (array == 0 || e->results[job].eligible < 0)
		return 0;
	l->array_active[array - 1]--;
	uint32_t next = l->array_head[array - 1];
	if (next == NOBODY)
		return 0;
	l->array_head[array - 1] = l->next_held[next];
	if (l->array_head[array - 1] == NOBODY)
		l->array_tail[array - 1] = NOBODY;
	return eligible_now (e, next);
}
