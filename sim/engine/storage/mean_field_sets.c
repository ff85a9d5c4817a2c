/*
 * Sets of jobs that write one at a time: IO-Sets (Boito, Pallez, Teylo, Vidal; IEEE TPDS
 * 2023) puts jobs of similar periods into one. Who asks while another is in a burst is
 * queued, first come, first served; sets do not know of each other.
 */
#include "mean_field_state.h"

void
mean_field_init_sets (struct sluice_mean_field *w)
{
	for (uint32_t i = 0; i < SLUICE_MEAN_FIELD_SETS; i++)
		w->sets[i] = (struct mean_field_set){ MEAN_FIELD_NOBODY, MEAN_FIELD_NOBODY,
						      MEAN_FIELD_NOBODY };
}

/* NULL: it is in none. */
static struct mean_field_set *
set_of (struct sluice_mean_field *w, const struct mean_field_job *job)
{
	uint32_t set = job->load.set;
	return set && set <= SLUICE_MEAN_FIELD_SETS ? &w->sets[set - 1] : NULL;
}

static uint32_t
slot_of (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	return (uint32_t)(job - w->jobs);
}

int
mean_field_take_turn (struct sluice_mean_field *w, struct mean_field_job *job)
{
	struct mean_field_set *set = set_of (w, job);
	if (!set)
		return 1;
	if (set->writing == MEAN_FIELD_NOBODY) {
		set->writing = slot_of (w, job);
		return 1;
	}
	job->behind = MEAN_FIELD_NOBODY;
	if (set->first == MEAN_FIELD_NOBODY)
		set->first = slot_of (w, job);
	else
		w->jobs[set->last].behind = slot_of (w, job);
	set->last = slot_of (w, job);
	return 0;
}

/* Take a job that is killed out of the queue. */
static void
leave_queue (struct sluice_mean_field *w, struct mean_field_set *set,
	     const struct mean_field_job *job)
{
	uint32_t slot = slot_of (w, job), before = MEAN_FIELD_NOBODY;
	for (uint32_t at = set->first; at != slot; at = w->jobs[at].behind)
		before = at;
	if (before == MEAN_FIELD_NOBODY)
		set->first = job->behind;
	else
		w->jobs[before].behind = job->behind;
	if (set->last == slot)
		set->last = before;
}

struct mean_field_job *
mean_field_give_turn (struct sluice_mean_field *w, struct mean_field_job *job)
{
	struct mean_field_set *set = set_of (w, job);
	if (!set)
		return NULL;
	if (job->phase == MEAN_FIELD_QUEUED) {
		leave_queue (w, set, job);
		return NULL;
	}
	set->writing = set->first;
	if (set->first == MEAN_FIELD_NOBODY)
		return NULL;
	struct mean_field_job *next = &w->jobs[set->first];
	set->first = next->behind;
	if (set->first == MEAN_FIELD_NOBODY)
		set->last = MEAN_FIELD_NOBODY;
	return next;
}
