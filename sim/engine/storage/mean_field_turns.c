/*
 * Bursts that take turns: the storage's own state in the terms of turns.h, decided on by
 * the core, put into effect as speeds and weights.
 *
 * Control sees a burst `latency` after it begins, and its end likewise. It knows how
 * far each burst is, and how long the job's last one took, by a measurement; of the first
 * one, and of what a job takes of the stations, what the load says until a burst has
 * ended. Bursts of jobs that are not covered cannot be held; where the storage does not
 * count what each job writes, they are not seen either.
 */
#include <math.h>

#include "mean_field_state.h"

enum { BURST_LENGTH = 1, BURST_NOISE = 2 }; /* streams of random numbers */

/* What a burst of a job is multiplied by, before that is divided by its mean. */
static double
factor_of (const struct sluice_mean_field *w, const struct mean_field_job *job,
	   uint32_t bursts_left, int stream, double sd)
{
	uint64_t key[3] = { w->config.seed, job->tag, (uint64_t)stream };
	return exp (
	    sd * mean_field_normal (sluice_hash_bytes (key, sizeof key, 0), bursts_left));
}

void
mean_field_set_usual (struct sluice_mean_field *w, struct mean_field_job *job)
{
	double spread = w->config.burst_spread, sum = 0.0;
	job->usual = job->load.burst;
	if (!(spread > 0.0))
		return;
	for (uint32_t left = job->load.bursts; left; left--)
		sum += factor_of (w, job, left, BURST_LENGTH, spread);
	job->usual = job->load.burst * job->load.bursts / sum;
}

double
mean_field_burst_length (const struct sluice_mean_field *w,
			 const struct mean_field_job *job, uint32_t bursts_left)
{
	double spread = w->config.burst_spread;
	if (!(spread > 0.0))
		return job->usual;
	return job->usual * factor_of (w, job, bursts_left, BURST_LENGTH, spread);
}

void
mean_field_init_turns (struct sluice_mean_field *w)
{
	const struct sluice_mean_field_config *config = &w->config;
	struct sluice_turns_storage *storage = &w->turns_storage;
	double targets = 0.0, servers = 0.0;
	w->control_at = INFINITY;
	for (uint32_t i = 0; i < config->lane_count; i++) {
		targets += config->lanes[i].targets;
		servers += config->lanes[i].servers;
	}
	storage->metadata = 1.0;
	storage->lane_count = config->lane_count;
	for (uint32_t i = 0; i < config->lane_count; i++)
		storage->lanes[i] = (struct sluice_turns_lane){
			.targets = config->lanes[i].targets,
			.bytes = config->lanes[i].targets / targets,
			.links = config->lanes[i].servers / servers,
			.switch_cost = config->switch_cost,
			.can_weigh = config->sharing == SLUICE_SHARING_WEIGHTS,
		};
}

/* What a job takes of all targets, links and the metadata server, as it is measured. */
static void
measure_demand (const struct sluice_mean_field *w, struct mean_field_job *job)
{
	double targets = 0.0, servers = 0.0;
	double rate = job->alone * w->config.turns.demand_error;
	for (uint32_t i = 0; i < w->config.lane_count; i++) {
		targets += w->config.lanes[i].targets;
		servers += w->config.lanes[i].servers;
	}
	job->demand[0] = rate * job->load.target_seconds / targets;
	job->demand[1] = rate * job->load.server_seconds / servers;
	job->demand[2] = rate * job->load.metadata_seconds;
}

void
mean_field_expect (struct sluice_mean_field *w, struct mean_field_job *job)
{
	const struct sluice_mean_field_load *load = &job->load;
	double error = w->config.turns.demand_error;
	job->expected = load->expected;
	job->demand[0] = load->target_share * error;
	job->demand[1] = load->link_share * error;
	job->demand[2] = load->metadata_share * error;
	if (!(load->target_share + load->link_share + load->metadata_share > 0.0))
		measure_demand (w, job);
}

void
mean_field_learn (struct sluice_mean_field *w, struct mean_field_job *job)
{
	if (!w->config.turns.is_on)
		return;
	job->expected
	    = job->burst
	      * factor_of (w, job, job->bursts_left, BURST_NOISE, w->config.turns.noise);
	measure_demand (w, job);
}

void
mean_field_ask_for_turns (struct sluice_mean_field *w)
{
	const struct sluice_mean_field_turns *turns = &w->config.turns;
	if (turns->is_on)
		w->control_at = fmin (w->control_at, w->now + turns->settings.latency);
}

/* Charge a burst for the time since it was last held, or slowed down. */
static void
charge (const struct sluice_mean_field *w, struct mean_field_job *job)
{
	double seconds = (1.0 - job->allowed) * (w->now - job->charged);
	job->held += seconds;
	job->held_in_all += seconds;
	job->charged = w->now;
}

void
mean_field_end_hold (struct sluice_mean_field *w, struct mean_field_job *job)
{
	charge (w, job);
	job->held = 0.0;
}

static void
describe (const struct sluice_mean_field *w, const struct mean_field_job *job,
	  struct sluice_turns_job *out)
{
	*out = (struct sluice_turns_job){
		.key = job->tag,
		.nodes = job->load.weight,
		.expected = job->expected,
		.done = job->burst - mean_field_remaining (w, job),
		.held = job->held + (1.0 - job->allowed) * (w->now - job->charged),
		.most_held = INFINITY,
		.began = job->burst_began,
		.lane_mask = job->mask,
		.flags = job->load.coverage ? SLUICE_TURNS_EXEMPT : 0,
	};
	out->demand[SLUICE_STATION_BYTES] = job->demand[0];
	out->demand[SLUICE_STATION_LINKS] = job->demand[1];
	out->demand[SLUICE_STATION_METADATA] = job->demand[2];
}

/* Describe all bursts that can be seen. Returns the time at which the next one can. */
static double
describe_all (struct sluice_mean_field *w, uint32_t *count)
{
	double next = INFINITY;
	*count = 0;
	for (uint32_t i = 0; i < w->config.lane_count; i++)
		for (uint32_t k = 0; k < w->lanes[i].count; k++) {
			uint32_t slot = w->lanes[i].active[k];
			const struct mean_field_job *job = &w->jobs[slot];
			double seen = job->burst_began + w->config.turns.settings.latency;
			if (mean_field_home (job->mask) != i
			    || job->load.coverage == SLUICE_MEAN_FIELD_UNSEEN)
				continue;
			if (seen > w->now) {
				next = fmin (next, seen);
				continue;
			}
			w->turn_slots[*count] = slot;
			describe (w, job, &w->turn_jobs[(*count)++]);
		}
	return next;
}

static void
follow (struct sluice_mean_field *w, struct mean_field_job *job,
	const struct sluice_turn *turn)
{
	charge (w, job);
	if (turn->share < job->allowed || turn->share > job->allowed
	    || turn->weight < job->weight || turn->weight > job->weight)
		w->dirty |= job->mask;
	job->allowed = turn->share;
	job->weight = turn->weight;
}

void
mean_field_take_turns (struct sluice_mean_field *w)
{
	const struct sluice_turns_settings *settings = &w->config.turns.settings;
	uint32_t count;
	double next = describe_all (w, &count);
	double again = sluice_turns_decide (settings, &w->turns_storage, w->turn_jobs,
					    count, w->now, w->turn_order, w->turns);
	struct sluice_mean_field_decided decided = {
		settings, &w->turns_storage, w->turn_jobs, w->turns, w->now, again, count, 0
	};
	if (w->watch)
		w->watch (w->watcher, &decided);
	for (uint32_t k = 0; k < count; k++)
		follow (w, &w->jobs[w->turn_slots[k]], &w->turns[k]);
	w->control_at = fmax (fmin (next, again), nextafter (w->now, INFINITY));
}

void
sluice_mean_field_watch_turns (struct sluice_mean_field *w, sluice_mean_field_watch *watch,
			       void *watcher)
{
	w->watch = watch;
	w->watcher = watcher;
}
