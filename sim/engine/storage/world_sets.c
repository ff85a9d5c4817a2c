/*
 * Sets of jobs that write one at a time: IO-Sets (Boito, Pallez, Teylo, Vidal; IEEE TPDS
 * 2023) puts jobs of similar periods into one. Who asks while another is in a burst is
 * queued, first come, first served; sets do not know of each other.
 */
#include "world_state.h"

void
world_init_sets (struct sluice_world *w)
{
	for (uint32_t i = 0; i < SLUICE_WORLD_SETS; i++)
		w->sets[i] = (struct world_set){ WORLD_NOBODY, WORLD_NOBODY, WORLD_NOBODY };
}

/* NULL: it is in none. */
static struct world_set *
set_of (struct sluice_world *w, const struct world_job *job)
{
	uint32_t set = job->load.set;
	return set && set <= SLUICE_WORLD_SETS ? &w->sets[set - 1] : NULL;
}

static uint32_t
slot_of (const struct sluice_world *w, const struct world_job *job)
{
	return (uint32_t)(job - w->jobs);
}

int
world_take_turn (struct sluice_world *w, struct world_job *job)
{
	struct world_set *set = set_of (w, job);
	if (!set)
		return 1;
	if (set->writing == WORLD_NOBODY) {
		set->writing = slot_of (w, job);
		return 1;
	}
	job->behind = WORLD_NOBODY;
	if (set->first == WORLD_NOBODY)
		set->first = slot_of (w, job);
	else
		w->jobs[set->last].behind = slot_of (w, job);
	set->last = slot_of (w, job);
	return 0;
}

/* Take a job that is killed out of the queue. */
static void
leave_queue (struct sluice_world *w, struct world_set *set, const struct world_job *job)
{
	uint32_t slot = slot_of (w, job), before = WORLD_NOBODY;
	for (uint32_t at = set->first; at != slot; at = w->jobs[at].behind)
		before = at;
	if (before == WORLD_NOBODY)
		set->first = job->behind;
	else
		w->jobs[before].behind = job->behind;
	if (set->last == slot)
		set->last = before;
}

struct world_job *
world_give_turn (struct sluice_world *w, struct world_job *job)
{
	struct world_set *set = set_of (w, job);
	if (!set)
		return NULL;
	if (job->phase == WORLD_QUEUED) {
		leave_queue (w, set, job);
		return NULL;
	}
	set->writing = set->first;
	if (set->first == WORLD_NOBODY)
		return NULL;
	struct world_job *next = &w->jobs[set->first];
	set->first = next->behind;
	if (set->first == WORLD_NOBODY)
		set->last = WORLD_NOBODY;
	return next;
}
