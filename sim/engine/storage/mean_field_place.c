/*
 * Says where the bursts of a job go: on its lanes, where these are one station each, or on
 * single targets, which its block, its creates or the file system's allocator choose anew
 * for the files of each burst.
 */
#include <math.h>
#include <stdlib.h>

#include "mean_field_state.h"

/* Laps of the pointer after which others have moved it anywhere, and creates from which
 * their number is as good as normally distributed. */
static const double laps_forgotten = 4.0, many_creates = 30.0;

/* Targets were never empty: s of their bandwidth that are on each from the start, or the
 * first burst would make its targets many times as full as the others. */
static const double filled_before = 3600.0;

/* A link of which all targets together cannot take more is never full: no job waits at it.
 */
static int
can_fill_links (const struct sluice_mean_field_config *config,
		struct sluice_mean_field_lane all, double links)
{
	return ceil (all.targets / links) * config->target_bandwidth
	       > config->server_bandwidth * all.servers / links;
}

void
mean_field_show_filling (struct sluice_mean_field *w, uint32_t target)
{
	double before = filled_before * w->config.target_bandwidth;
	sluice_placement_fill (w->placement, target, before + w->groups[target].written,
			       0.0);
}

int
mean_field_init_groups (struct sluice_mean_field *w)
{
	const struct sluice_mean_field_config *config = &w->config;
	struct sluice_mean_field_lane all = sluice_mean_field_total (config);
	w->link_base = w->group_count = config->lane_count;
	if (config->allocator == SLUICE_ALLOCATOR_NONE) {
		for (uint32_t i = 0; i < config->lane_count; i++) {
			w->groups[i].targets = config->lanes[i].targets;
			w->groups[i].servers = config->lanes[i].servers;
		}
		return 0;
	}
	w->link_base = w->group_count = (uint32_t)all.targets;
	w->link_count = sluice_mean_field_links (config);
	w->link_seconds = w->link_count / all.servers;
	if (can_fill_links (config, all, w->link_count))
		w->group_count += w->link_count;
	w->placement = malloc (sizeof *w->placement);
	if (!w->placement)
		return -1;
	sluice_placement_init (w->placement, w->link_base);
	for (uint32_t i = 0; i < w->link_base; i++)
		mean_field_show_filling (w, i);
	return 0;
}

void
mean_field_place_on_lanes (struct sluice_mean_field *w, struct mean_field_job *job)
{
	uint16_t *groups = mean_field_groups_of (w, job);
	for (uint32_t rest = job->mask; rest; rest &= rest - 1U) {
		groups[job->group_count++] = (uint16_t)mean_field_home (rest);
		job->targets += w->config.lanes[mean_field_home (rest)].targets;
	}
	job->target_count = job->group_count;
}

uint32_t
mean_field_most_streams (const struct sluice_mean_field *w,
			 const struct sluice_mean_field_load *load)
{
	if (!w->placement || load->files < 2)
		return 0;
	return load->files < w->link_base ? load->files : w->link_base;
}

/* The targets that its lanes, or its block, leave a job: w->candidates. */
static uint32_t
find_candidates (struct sluice_mean_field *w, const struct mean_field_job *job)
{
	uint32_t count = 0, first = 0;
	for (uint32_t i = 0; i < job->block.count; i++)
		w->candidates[count++] = (uint16_t)(job->block.first + i);
	for (uint32_t lane = 0; lane < w->config.lane_count && !job->block.count; lane++) {
		uint32_t targets = (uint32_t)w->config.lanes[lane].targets;
		for (uint32_t i = 0; i < targets && job->mask & 1U << lane; i++)
			w->candidates[count++] = (uint16_t)(first + i);
		first += targets;
	}
	return count;
}

/* Creates of others move the pointer as well. */
static void
move_pointer (struct sluice_mean_field *w)
{
	const struct sluice_mean_field_config *config = &w->config;
	double mean = config->foreign_creates * fmin (w->now - w->pointed, 1e9);
	double moved = 0.0, targets = w->link_base;
	w->pointed = w->now;
	if (!(mean > 0.0))
		return;
	if (mean > laps_forgotten * targets)
		moved = targets * burst_uniform (config->seed, UINT64_MAX, w->creates++);
	else if (mean > many_creates)
		moved = fmax (
		    0.0, mean + sqrt (mean) * sluice_normal (config->seed, w->creates++));
	else
		for (double sum = 0.0;; moved += 1.0) {
			sum -= log (burst_uniform (config->seed, UINT64_MAX, w->creates++));
			if (sum > mean)
				break;
		}
	w->pointer = (w->pointer + (uint32_t)moved) % w->link_base;
}

/* Stripes or files on `count` neighbours, from the first on again where there are more. By
 * chance a file has neighbours of its own. */
static void
allocate (struct sluice_mean_field *w, const struct mean_field_job *job, uint32_t targets,
	  uint32_t count)
{
	int is_chance = w->config.allocator == SLUICE_ALLOCATOR_CHANCE;
	uint32_t number = job->bursts_left << 16; /* no burst has as many files */
	if (!is_chance)
		move_pointer (w);
	uint32_t first = w->pointer;
	for (uint32_t i = 0; i < count; i++) {
		if (is_chance && (i == 0 || job->load.files))
			first = (uint32_t)(targets
					   * burst_uniform (w->config.seed, job->tag,
							    number++));
		w->files[w->candidates[(first + i) % targets]]++;
	}
	w->pointer = (w->pointer + count) % w->link_base;
}

/* On targets where the fewest bursts are. */
static void
place_at_create (struct sluice_mean_field *w, uint32_t targets, uint32_t count)
{
	uint16_t writers[SLUICE_MAX_TARGETS], found[SLUICE_MAX_TARGETS];
	for (uint32_t i = 0; i < w->link_base; i++)
		writers[i] = UINT16_MAX;
	for (uint32_t i = 0; i < targets; i++)
		writers[w->candidates[i]] = (uint16_t)w->groups[w->candidates[i]].count;
	uint32_t wanted = count < targets ? count : targets;
	wanted
	    = sluice_placement_at_create (w->placement, writers, wanted, w->pointer, found);
	for (uint32_t i = 0; i < count; i++)
		w->files[found[i % wanted]]++;
	w->pointer = (w->pointer + count) % w->link_base;
}

void
mean_field_place (struct sluice_mean_field *w, struct mean_field_job *job)
{
	uint32_t targets = find_candidates (w, job), width = job->load.width;
	uint32_t count = job->load.files	    ? job->load.files
			 : job->block.count	    ? targets
			 : width && width < targets ? width
						    : targets;
	if (job->load.placed)
		place_at_create (w, targets, count);
	else
		allocate (w, job, targets, count);
	uint16_t *groups = mean_field_groups_of (w, job);
	job->group_count = 0;
	for (uint32_t i = 0; i < targets; i++)
		if (w->files[w->candidates[i]])
			groups[job->group_count++] = w->candidates[i];
	job->target_count = job->group_count;
	job->targets = job->target_count;
	for (uint32_t i = 0; i < job->target_count && w->link_base < w->group_count; i++) {
		uint32_t link = w->link_base + groups[i] % w->link_count;
		if (!w->files[link]++)
			groups[job->group_count++] = (uint16_t)link;
	}
}

void
mean_field_placed (struct sluice_mean_field *w, const struct mean_field_job *job)
{
	const uint16_t *groups = mean_field_groups_of (w, job);
	uint32_t links = w->group_count - w->link_base;
	for (uint32_t i = 0; i < job->target_count; i++)
		w->files[groups[i]] = 0;
	for (uint32_t i = 0; i < links; i++)
		w->files[w->link_base + i] = 0;
}

double
mean_field_streams_alone (const struct sluice_mean_field *w,
			  const struct mean_field_job *job,
			  double alone[SLUICE_MAX_TARGETS])
{
	const struct sluice_mean_field_load *load = &job->load;
	const uint16_t *groups = mean_field_groups_of (w, job);
	double sum = 0.0, most = 1.0, links[SLUICE_MAX_TARGETS] = { 0.0 };
	for (uint32_t i = 0; i < job->target_count; i++) {
		double share = (double)w->files[groups[i]] / load->files;
		alone[i] = share * fmin (load->cap, load->outstanding / load->cycle);
		if (load->target_seconds > 0.0)
			alone[i] = fmin (alone[i], 1.0 / load->target_seconds);
		sum += alone[i];
		uint32_t link = groups[i] % w->link_count;
		links[link] += alone[i] * load->server_seconds * w->link_seconds;
		most = fmax (most, links[link]);
	}
	return fmax (most, sum * load->metadata_seconds);
}
