#include <math.h>
#include <stdlib.h>

#include "state.h"

static int
is_multifactor (const struct priority *p)
{
	return p->workload->scheduler.priority == SLUICE_PRIORITY_MULTIFACTOR;
}

static uint32_t
count_accounts (const struct sluice_workload *w)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < w->association_count; i++)
		if (w->associations[i].account >= count)
			count = w->associations[i].account + 1;
	return count;
}

int
priority_init (struct priority *p, const struct sluice_workload *w, double origin)
{
	*p = (struct priority){ .workload = w };
	if (!is_multifactor (p))
		return 0;
	uint32_t users = w->association_count;
	p->account_count = count_accounts (w);
	p->shares = calloc (users + 1, sizeof *p->shares);
	p->standings = calloc (users + 1, sizeof *p->standings);
	p->account_usage = calloc (p->account_count + 1, sizeof *p->account_usage);
	p->account_shares = calloc (p->account_count + 1, sizeof *p->account_shares);
	if (!p->shares || !p->standings || !p->account_usage || !p->account_shares)
		return -1;
	for (uint32_t i = 0; i < users; i++) {
		const struct sluice_association *a = &w->associations[i];
		if (p->account_shares[a->account] == 0)
			p->all_shares += a->account_shares;
		p->account_shares[a->account] += a->shares;
	}
	for (uint32_t g = 0; g < w->machine.group_count; g++)
		p->total_slots += w->machine.group_slots[g];
	p->decay = pow (0.5, w->scheduler.calc_period / w->scheduler.half_life);
	p->period_end = origin + w->scheduler.calc_period;
	p->is_stale = 1;
	return 0;
}

void
priority_release (struct priority *p)
{
	free (p->shares);
	free (p->standings);
	free (p->account_usage);
	free (p->account_shares);
	*p = (struct priority){ 0 };
}

/* Shares over usage, each as a part of a whole; nothing used yet: first of all. */
static double
level (double shares, double all_shares, double usage, double all_usage)
{
	return usage > 0 ? (shares / all_shares) / (usage / all_usage) : INFINITY;
}

static int
compare (const void *left, const void *right)
{
	const struct standing *a = left, *b = right;
	if (a->account_level != b->account_level)
		return a->account_level > b->account_level ? -1 : 1;
	if (a->level != b->level)
		return a->level > b->level ? -1 : 1;
	return 0;
}

/* Fair Tree: accounts by level, users within them by theirs. The factor is the share
 * of users that are not before one; equals are equal. */
static void
rank_users (struct priority *p)
{
	const struct sluice_workload *w = p->workload;
	uint32_t users = w->association_count;
	double all_usage = 0;
	for (uint32_t i = 0; i < p->account_count; i++)
		p->account_usage[i] = 0;
	for (uint32_t i = 0; i < users; i++)
		p->account_usage[w->associations[i].account] += p->shares[i].usage;
	for (uint32_t i = 0; i < p->account_count; i++)
		all_usage += p->account_usage[i];
	for (uint32_t i = 0; i < users; i++) {
		const struct sluice_association *a = &w->associations[i];
		double used = p->account_usage[a->account];
		p->standings[i] = (struct standing){
			.account_level
			= level (a->account_shares, p->all_shares, used, all_usage),
			.level = level (a->shares, p->account_shares[a->account],
					p->shares[i].usage, used),
			.user = i,
		};
	}
	qsort (p->standings, users, sizeof *p->standings, compare);
	uint32_t before = 0;
	for (uint32_t i = 0; i < users; i++) {
		if (i > 0 && compare (&p->standings[i - 1], &p->standings[i]) != 0)
			before = i;
		p->shares[p->standings[i].user].factor = 1.0 - (double)before / users;
	}
	p->is_stale = 0;
}

static double
size_factor (const struct priority *p, int32_t slots)
{
	double part = slots / p->total_slots;
	return p->workload->scheduler.favor_small ? 1.0 - part : part;
}

static uint32_t
points (struct priority *p, uint32_t job, double eligible, double now)
{
	const struct sluice_scheduler *s = &p->workload->scheduler;
	const struct sluice_replay_job *j = &p->workload->jobs[job];
	if (p->is_stale)
		rank_users (p);
	double age = (now - eligible) / s->max_age;
	double sum
	    = s->weight_age * (age < 1 ? age : 1)
	      + s->weight_size * size_factor (p, j->slots)
	      + s->weight_fair_share * p->shares[j->user].factor
	      + s->weight_partition * p->workload->machine.partitions[j->partition].factor
	      + j->bonus;
	if (sum < 1)
		return 1;
	return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

uint64_t
priority_rank (struct priority *p, uint32_t job, double eligible, double now)
{
	const struct sluice_workload *w = p->workload;
	uint32_t tier = w->machine.partitions[w->jobs[job].partition].tier;
	uint32_t priority = is_multifactor (p) ? points (p, job, eligible, now) : 0;
	return (uint64_t)(UINT32_MAX - tier) << 32 | (UINT32_MAX - priority);
}

/* Slot-seconds of a period are busy * its end - mark: a start at t adds slots * t to
 * the mark, an end takes as much away. */
static void
change_busy (struct priority *p, uint32_t job, double now, int sign)
{
	if (!is_multifactor (p))
		return;
	const struct sluice_replay_job *j = &p->workload->jobs[job];
	struct share *share = &p->shares[j->user];
	share->busy += sign * j->slots;
	share->mark += sign * j->slots * now;
}

void
priority_started (struct priority *p, uint32_t job, double now)
{
	change_busy (p, job, now, 1);
}

void
priority_ended (struct priority *p, uint32_t job, double now)
{
	change_busy (p, job, now, -1);
}

void
priority_advance (struct priority *p, double now)
{
	if (!is_multifactor (p))
		return;
	for (; p->period_end <= now; p->period_end += p->workload->scheduler.calc_period) {
		for (uint32_t i = 0; i < p->workload->association_count; i++) {
			struct share *share = &p->shares[i];
			double until = share->busy * p->period_end;
			share->usage = share->usage * p->decay + (until - share->mark);
			share->mark = until;
		}
		p->is_stale = 1;
	}
}

/* Entry into the queue: begin times, dependencies, limits of arrays. */

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
		l->array_head[i] = l->array_tail[i] = NONE;
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
	l->next_held[job] = NONE;
	if (l->array_tail[array] == NONE)
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
	if (next == NONE)
		return 0;
	l->array_head[array - 1] = l->next_held[next];
	if (l->array_head[array - 1] == NONE)
		l->array_tail[array - 1] = NONE;
	return eligible_now (e, next);
}
