/*
 * The network of single targets, solved exactly by progressive filling.
 *
 * A job waits as long as at the fullest of its targets and links. So of all stations the
 * one with the longest wait, if only the jobs of which no wait is known were there, has
 * that wait: elsewhere these jobs can only load it less, never more. It decides on its
 * jobs; what they load elsewhere is then known, and the rest is solved in the same way. A
 * station at which nothing waits even with all bursts at their peaks needs no look. Where
 * targets are fair, their waits are levels of rates, and not to be compared to the waits of
 * links or of the metadata server: these are then solved in turn, until no rate moves.
 */
#include <math.h>

#include "mean_field_state.h"

enum { MAX_SWEEPS = 64 };
static const double still = 1e-9; /* a sweep that moves rates less is the last */

static int
is_busy (const struct sluice_mean_field *w, uint32_t i)
{
	const struct mean_field_group *group = &w->groups[i];
	double full = i < w->link_base ? mean_field_capacity (w, group) : 1.0;
	return !mean_field_is_idle (group->target_peak, 0.0, full);
}

static void
reach_jobs (struct sluice_mean_field *w, const struct mean_field_group *group)
{
	for (uint32_t k = 0; k < group->count; k++) {
		struct mean_field_job *job = &w->jobs[group->active[k].slot];
		if (job->mark == w->mark)
			continue;
		job->mark = w->mark;
		job->wait = job->level = 0.0;
		w->slots[w->reached_jobs++] = group->active[k].slot;
	}
}

/* The jobs on dirty groups, and all jobs and busy stations that these reach. */
static void
reach (struct sluice_mean_field *w, int all)
{
	w->mark++;
	w->reached_groups = w->reached_jobs = 0;
	for (uint32_t i = 0; i < w->group_count; i++) {
		if (all || w->groups[i].is_dirty)
			reach_jobs (w, &w->groups[i]);
		w->groups[i].is_dirty = 0;
	}
	w->dirty = 0;
	for (uint32_t k = 0; k < w->reached_jobs; k++) {
		const struct mean_field_job *job = &w->jobs[w->slots[k]];
		const uint16_t *groups = mean_field_groups_of (w, job);
		for (uint32_t i = 0; i < job->group_count; i++) {
			struct mean_field_group *group = &w->groups[groups[i]];
			if (group->mark == w->mark || !is_busy (w, groups[i]))
				continue;
			group->mark = w->mark;
			w->reached[w->reached_groups++] = groups[i];
			reach_jobs (w, group);
		}
	}
}

/* Whether a station belongs to those that are filled together. */
static int
is_among (const struct sluice_mean_field *w, uint32_t group,
	  enum mean_field_station station)
{
	if (w->config.sharing == SLUICE_SHARING_FIFO)
		return station == MEAN_FIELD_TARGET;
	return (station == MEAN_FIELD_TARGET) == (group < w->link_base);
}

/* The wait at a station if only the jobs were there of which none is known yet. */
static double
wait_by_itself (struct sluice_mean_field *w, uint32_t i, enum mean_field_station station)
{
	const struct mean_field_group *group = &w->groups[i];
	double full = i < w->link_base ? mean_field_capacity (w, group) : 1.0;
	uint32_t count = 0;
	for (uint32_t k = 0; k < group->count; k++) {
		const struct mean_field_visit *visit = &group->active[k];
		const struct mean_field_job *job = &w->jobs[visit->slot];
		if (job->is_fixed)
			full -= visit->load * job->rate;
		else
			w->terms[count++]
			    = mean_field_term_of_target (w, station, job, visit->load);
	}
	return count ? mean_field_wait_of (w->terms, count, fmax (full, 1e-12),
					   group->target_wait)
		     : 0.0;
}

/* The station decides on its jobs, which changes what is left for others elsewhere. */
static void
fix_jobs (struct sluice_mean_field *w, const struct mean_field_group *group, int is_level)
{
	for (uint32_t k = 0; k < group->count; k++) {
		struct mean_field_job *job = &w->jobs[group->active[k].slot];
		if (job->is_fixed)
			continue;
		*(is_level ? &job->level : &job->wait) = group->target_wait;
		job->rate = mean_field_rate_of (w, job);
		job->is_fixed = 1;
		const uint16_t *groups = mean_field_groups_of (w, job);
		for (uint32_t i = 0; i < job->group_count; i++)
			w->groups[groups[i]].is_stale = 1;
	}
}

/* The stations of one kind, one bottleneck after the other. */
static void
fill (struct sluice_mean_field *w, enum mean_field_station station)
{
	int is_level
	    = station == MEAN_FIELD_TARGET && w->config.sharing != SLUICE_SHARING_FIFO;
	for (uint32_t k = 0; k < w->reached_jobs; k++) {
		struct mean_field_job *job = &w->jobs[w->slots[k]];
		*(is_level ? &job->level : &job->wait) = 0.0;
		job->is_fixed = 0;
	}
	for (uint32_t k = 0; k < w->reached_groups; k++)
		w->groups[w->reached[k]].is_stale = 1;
	for (;;) {
		const struct mean_field_group *fullest = NULL;
		for (uint32_t k = 0; k < w->reached_groups; k++) {
			struct mean_field_group *group = &w->groups[w->reached[k]];
			if (!is_among (w, w->reached[k], station))
				continue;
			if (group->is_stale)
				group->target_wait
				    = wait_by_itself (w, w->reached[k], station);
			group->is_stale = 0;
			if (group->target_wait > (fullest ? fullest->target_wait : 0.0))
				fullest = group;
		}
		if (!fullest)
			return;
		fix_jobs (w, fullest, is_level);
	}
}

/* The largest relative move of a rate since the last call. */
static double
moved (struct sluice_mean_field *w)
{
	double most = 0.0;
	for (uint32_t k = 0; k < w->reached_jobs; k++) {
		struct mean_field_job *job = &w->jobs[w->slots[k]];
		double rate = mean_field_rate_of (w, job);
		most = fmax (most, fabs (rate - job->was) / job->alone);
		job->was = rate;
	}
	return most;
}

void
mean_field_solve_targets (struct sluice_mean_field *w)
{
	int is_metadata_full
	    = !mean_field_is_idle (w->metadata_peak, w->metadata_wait, 1.0);
	reach (w, is_metadata_full);
	int has_levels = w->config.sharing != SLUICE_SHARING_FIFO;
	int has_links = w->link_base < w->group_count;
	int is_one_kind
	    = w->reached_groups ? !is_metadata_full && !(has_levels && has_links) : 1;
	for (int i = 0; i < MAX_SWEEPS; i++) {
		fill (w, MEAN_FIELD_TARGET);
		if (has_levels && has_links)
			fill (w, MEAN_FIELD_SERVER);
		if (is_metadata_full)
			mean_field_fill_station (w, MEAN_FIELD_METADATA, 0, 1.0);
		if (is_one_kind || moved (w) <= still)
			break;
	}
	for (uint32_t k = 0; k < w->reached_jobs; k++) {
		struct mean_field_job *job = &w->jobs[w->slots[k]];
		mean_field_set_rate (w, job, mean_field_rate_of (w, job));
	}
}
