#include "priority.h"

#include <math.h>
#include <stdlib.h>

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

/* Shares over usage, each as a part of a whole; nothing used yet: before everybody. */
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
