/*
 * Bursts that take turns (bursts.h): the storage's own state as control observes it, and
 * its verdicts put into effect as speeds.
 */
#include <math.h>
#include <string.h>

#include "mean_field_state.h"

void
mean_field_set_usual (struct sluice_mean_field *w, struct mean_field_job *job)
{
	const struct sluice_mean_field_load *load = &job->load;
	job->usual = burst_usual (w->config.seed, job->tag, load->bursts,
				  w->config.burst_spread, load->burst);
}

double
mean_field_burst_length (const struct sluice_mean_field *w,
			 const struct mean_field_job *job, uint32_t bursts_left)
{
	return job->usual
	       * burst_factor (w->config.seed, job->tag, bursts_left,
			       w->config.burst_spread);
}

void
mean_field_init_turns (struct sluice_mean_field *w)
{
	const struct sluice_mean_field_config *config = &w->config;
	struct sluice_turns_storage *storage = &w->control.storage;
	struct sluice_mean_field_lane all = sluice_mean_field_total (config);
	burst_control_init (&w->control, &config->turns, config->seed);
	storage->metadata = 1.0;
	storage->lane_count = config->lane_count;
	for (uint32_t i = 0; i < config->lane_count; i++)
		storage->lanes[i] = (struct sluice_turns_lane){
			.targets = config->lanes[i].targets,
			.bytes = config->lanes[i].targets / all.targets,
			.links = config->lanes[i].servers / all.servers,
		};
}

/* What a job takes of all targets, links and the metadata server. */
static void
demand_of (const struct sluice_mean_field *w, const struct mean_field_job *job,
	   double out[SLUICE_STATION_COUNT])
{
	double shares[SLUICE_MEAN_FIELD_STATIONS];
	sluice_mean_field_shares (&w->config, &job->load, shares);
	out[SLUICE_STATION_BYTES] = shares[0];
	out[SLUICE_STATION_OPERATIONS] = 0.0;
	out[SLUICE_STATION_LINKS] = shares[1];
	out[SLUICE_STATION_METADATA] = shares[2];
}

void
mean_field_expect (struct sluice_mean_field *w, struct mean_field_job *job)
{
	const struct sluice_mean_field_load *load = &job->load;
	double demand[SLUICE_STATION_COUNT] = {
		[SLUICE_STATION_BYTES] = load->target_share,
		[SLUICE_STATION_LINKS] = load->link_share,
		[SLUICE_STATION_METADATA] = load->metadata_share,
	};
	if (!(load->target_share + load->link_share + load->metadata_share > 0.0))
		demand_of (w, job, demand);
	burst_expect (&w->control, &job->turn, load->most_held, load->expected, demand);
}

void
mean_field_learn (struct sluice_mean_field *w, struct mean_field_job *job)
{
	double demand[SLUICE_STATION_COUNT];
	demand_of (w, job, demand);
	burst_learn (&w->control, &job->turn, job->tag, job->bursts_left, job->burst,
		     demand);
}

/* Those that a burst, or all of its streams, is on. */
static const uint64_t *
targets_of (struct sluice_mean_field *w, const struct mean_field_job *job)
{
	const uint16_t *groups = mean_field_groups_of (w, job);
	uint64_t *bits = &w->bits[(size_t)(job - w->jobs) * TARGET_WORDS];
	memset (bits, 0, TARGET_WORDS * sizeof *bits);
	for (uint32_t i = 0; i < job->target_count; i++)
		bits[groups[i] / 64] |= (uint64_t)1 << groups[i] % 64;
	return bits;
}

/* Report a burst to control; one of several streams with the first of them. */
static void
report (struct sluice_mean_field *w, const struct mean_field_job *stream)
{
	const struct mean_field_job *job = stream;
	if (stream->owner != MEAN_FIELD_NO_SLOT)
		job = &w->jobs[stream->owner];
	if (job != stream && &w->jobs[job->first_stream] != stream)
		return;
	struct sluice_turns_job is = {
		.key = job->tag,
		.nodes = job->load.weight,
		.done = job->burst - mean_field_remaining (w, job),
		.began = job->burst_began,
		.speed = stream->speed,
		.program = job->load.program,
		.lane_mask = job->mask,
		.targets = w->placement ? targets_of (w, job) : NULL,
	};
	burst_control_report (&w->control, w->now, (uint32_t)(job - w->jobs), &job->turn,
			      job->load.coverage, &is);
}

/* Report all bursts that go on to control. */
static void
report_all (struct sluice_mean_field *w)
{
	for (uint32_t i = 0; i < w->group_count; i++)
		for (uint32_t k = 0; k < w->groups[i].count; k++) {
			const struct mean_field_job *job
			    = &w->jobs[w->groups[i].active[k].slot];
			if (mean_field_is_home (w, i, job))
				report (w, job);
		}
}

void
mean_field_take_turns (struct sluice_mean_field *w)
{
	if (w->dirty)
		mean_field_solve (w);
	burst_control_begin (&w->control);
	report_all (w);
	burst_control_decide (&w->control, w->now);
	for (uint32_t k = 0; k < w->control.count; k++) {
		struct mean_field_job *job = &w->jobs[w->control.slots[k]];
		if (!burst_follow (&w->control, &job->turn, &w->control.turns[k], w->now))
			continue;
		mean_field_mark_dirty (w, job);
		for (uint32_t slot = job->first_stream; slot != MEAN_FIELD_NO_SLOT;
		     slot = w->jobs[slot].next_stream) {
			w->jobs[slot].turn.allowed = job->turn.allowed;
			mean_field_mark_dirty (w, &w->jobs[slot]);
		}
	}
}

void
sluice_mean_field_watch_turns (struct sluice_mean_field *w, sluice_turns_watch *watch,
			       void *watcher)
{
	w->control.watch = watch;
	w->control.watcher = watcher;
}
