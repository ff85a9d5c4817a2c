/* Does the workload make sense? The engine believes it afterwards. */
#include "workload.h"

#include <math.h>

void
sluice_scheduler_init (struct sluice_scheduler *scheduler)
{
	*scheduler = (struct sluice_scheduler){ 0 };
#define SET_NUMBER(name, value, low, high, unit, text) scheduler->name = value;
#define SET_CHOICE(name, value, high, text) scheduler->name = value;
	SLUICE_SCHEDULER_NUMBERS (SET_NUMBER)
	SLUICE_SCHEDULER_CHOICES (SET_CHOICE)
}

static int
check_scheduler (const struct sluice_scheduler *s, struct sluice_error *err)
{
#define CHECK_NUMBER(name, value, low, high, unit, text)                                   \
	if (!(s->name >= (low) && s->name <= (high)))                                      \
		return sluice_fail (err, #name " is %g, not within %g..%g %s", s->name,    \
				    (double)(low), (double)(high), unit);
#define CHECK_CHOICE(name, value, high, text)                                              \
	if (s->name > (uint32_t)(high))                                                    \
		return sluice_fail (err, #name " is %u, at most %u", s->name,              \
				    (uint32_t)(high));
	SLUICE_SCHEDULER_NUMBERS (CHECK_NUMBER)
	SLUICE_SCHEDULER_CHOICES (CHECK_CHOICE)
	return 0;
}

static int
check_machine (const struct sluice_machine *m, struct sluice_error *err)
{
	if (m->group_count < 1 || m->group_count > SLUICE_MAX_GROUPS)
		return sluice_fail (err, "%u groups of slots, not within 1..%d",
				    m->group_count, SLUICE_MAX_GROUPS);
	if (m->partition_count < 1 || m->partition_count > SLUICE_REPLAY_PARTITIONS)
		return sluice_fail (err, "%u partitions, not within 1..%d",
				    m->partition_count, SLUICE_REPLAY_PARTITIONS);
	if (m->license_count > SLUICE_MAX_LICENSES)
		return sluice_fail (err, "%u licences, at most %d", m->license_count,
				    SLUICE_MAX_LICENSES);
	int64_t slots = 0;
	for (uint32_t i = 0; i < m->group_count; i++) {
		if (m->group_slots[i] < 0)
			return sluice_fail (err, "group %u has %d slots", i,
					    m->group_slots[i]);
		slots += m->group_slots[i];
	}
	if (slots < 1 || slots > INT32_MAX / 2)
		return sluice_fail (err, "%lld slots, not within 1..%d", (long long)slots,
				    INT32_MAX / 2);
	for (uint32_t i = 0; i < m->license_count; i++)
		if (m->licenses[i] < 0 || m->licenses[i] > INT32_MAX / 2)
			return sluice_fail (err, "licence %u has a total of %d", i,
					    m->licenses[i]);
	uint64_t known = m->group_count == 64 ? UINT64_MAX : (1ULL << m->group_count) - 1;
	for (uint32_t i = 0; i < m->partition_count; i++)
		if (!m->partitions[i].groups || m->partitions[i].groups & ~known)
			return sluice_fail (
			    err, "partition %u has no groups, or unknown ones", i);
	return 0;
}

static int
check_dependencies (const struct sluice_workload *w, const struct sluice_replay_job *j,
		    struct sluice_error *err)
{
	if (j->first_dependency > w->dependency_count
	    || j->dependency_count > w->dependency_count - j->first_dependency)
		return sluice_fail (err, "its dependencies are not there");
	for (uint32_t i = 0; i < j->dependency_count; i++) {
		const struct sluice_dependency *d
		    = &w->dependencies[j->first_dependency + i];
		if (d->job >= w->job_count || d->kind > SLUICE_AFTER_NOT_OK
		    || !(d->delay >= 0 && d->delay < INFINITY))
			return sluice_fail (err, "dependency %u makes no sense", i);
	}
	return 0;
}

/* Licences of a job ascend, so that each stands there once. */
static int
check_needs (const struct sluice_workload *w, const struct sluice_replay_job *j,
	     struct sluice_error *err)
{
	if (j->first_license > w->license_need_count
	    || j->license_count > w->license_need_count - j->first_license)
		return sluice_fail (err, "its licences are not there");
	for (uint32_t i = 0; i < j->license_count; i++) {
		const struct sluice_license_need *need
		    = &w->license_needs[j->first_license + i];
		if (need->license >= w->machine.license_count || need->count < 1
		    || (i > 0 && need[-1].license >= need->license))
			return sluice_fail (err, "licence %u makes no sense", i);
	}
	return 0;
}

static int
check_job (const struct sluice_workload *w, const struct sluice_replay_job *j,
	   struct sluice_error *err)
{
	if (!(fabs (j->submit) < 1e15 && j->begin > -1e15 && j->begin < 1e15))
		return sluice_fail (err, "submitted at %g, begins at %g", j->submit,
				    j->begin);
	if (j > w->jobs && !(j->submit >= j[-1].submit))
		return sluice_fail (err, "submitted before the one in front of it");
	if (!(j->runtime >= 0 && j->runtime < 1e15 && j->limit >= 1))
		return sluice_fail (err, "runs for %g s with a limit of %g s", j->runtime,
				    j->limit);
	if (j->slots < 1 || j->slots > INT32_MAX / 2)
		return sluice_fail (err, "wants %d slots", j->slots);
	if (j->partition >= w->machine.partition_count)
		return sluice_fail (err, "no partition %u", j->partition);
	if (w->scheduler.priority == SLUICE_PRIORITY_MULTIFACTOR
	    && j->user >= w->association_count)
		return sluice_fail (err, "no association %u", j->user);
	if (j->array > w->array_count)
		return sluice_fail (err, "no array %u", j->array);
	return check_needs (w, j, err) || check_dependencies (w, j, err) ? -1 : 0;
}

static int
check_leases (const struct sluice_workload *w, struct sluice_error *err)
{
	for (uint32_t i = 0; i < w->lease_count; i++) {
		const struct sluice_lease *l = &w->leases[i];
		int is_known = l->group ? l->group <= w->machine.group_count
					: l->license < w->machine.license_count;
		if (!is_known || l->amount < 0 || l->amount > INT32_MAX / 64
		    || !(l->from < l->until))
			return sluice_fail (err, "lease %u makes no sense", i);
	}
	return 0;
}

static int
check_associations (const struct sluice_workload *w, struct sluice_error *err)
{
	for (uint32_t i = 0; i < w->association_count; i++) {
		const struct sluice_association *a = &w->associations[i];
		if (!(a->shares > 0 && a->account_shares > 0)
		    || a->account >= w->association_count)
			return sluice_fail (err, "association %u makes no sense", i);
	}
	return 0;
}

int
sluice_workload_check (const struct sluice_workload *w, struct sluice_error *err)
{
	if (check_scheduler (&w->scheduler, err) || check_machine (&w->machine, err)
	    || check_leases (w, err) || check_associations (w, err))
		return -1;
	if (w->job_count >= UINT32_MAX - 1)
		return sluice_fail (err, "too many jobs");
	for (uint32_t i = 0; i < w->job_count; i++) {
		struct sluice_error reason;
		if (check_job (w, &w->jobs[i], &reason))
			return sluice_fail (err, "job %u: %s", i, reason.text);
	}
	return 0;
}
