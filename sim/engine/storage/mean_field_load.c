/*
 * The mean-field storage model's configuration, and profiles in the terms of its network.
 */
#include <math.h>
#include <string.h>

#include "mean_field_state.h"

/* A program of which nothing is known writes every ten minutes. */
static const double usual_period = 600.0;
static const double mib = 1048576.0;
static const double most_files
    = 16384.0; /* of a burst: by then targets have as many each */

void
sluice_mean_field_config_init (struct sluice_mean_field_config *config)
{
	memset (config, 0, sizeof *config);
#define SET(name, value, low, high, unit, text) config->name = value;
	SLUICE_MEAN_FIELD_FIELDS (SET)
#undef SET
	config->lane_count = 1;
	sluice_turns_config_init (&config->turns);
	config->lanes[0]
	    = (struct sluice_mean_field_lane){ .targets = 104.0, .servers = 8.0 };
}

/* Whether targets can be told apart. */
static int
check_targets (const struct sluice_mean_field_config *config, struct sluice_error *err)
{
	double sum = 0.0;
	if (config->allocator > SLUICE_ALLOCATOR_ROUND_ROBIN)
		return sluice_fail (err, "allocator is %u", config->allocator);
	if (!(config->foreign_creates >= 0.0 && config->foreign_creates <= 1e9))
		return sluice_fail (err, "foreign_creates is %g; give 0 to 1e9 a second",
				    config->foreign_creates);
	for (uint32_t i = 0; i < config->lane_count; i++) {
		double targets = config->lanes[i].targets;
		if (targets < floor (targets) || targets > floor (targets))
			return sluice_fail (err,
					    "lane %u has %g targets; placement needs "
					    "whole ones",
					    i, targets);
		sum += targets;
	}
	if (sum > SLUICE_MAX_TARGETS)
		return sluice_fail (err, "%g targets; placement knows up to %d", sum,
				    SLUICE_MAX_TARGETS);
	return 0;
}

int
sluice_mean_field_config_check (const struct sluice_mean_field_config *config,
				struct sluice_error *err)
{
#define CHECK(name, value, low, high, unit, text)                                          \
	if (!(config->name >= (low) && config->name <= (high)))                            \
		return sluice_fail (err, "%s is %g; give %g to %g %s", #name,              \
				    config->name, (double)(low), (double)(high), unit);
	SLUICE_MEAN_FIELD_FIELDS (CHECK)
#undef CHECK
	if (sluice_turns_config_check (&config->turns, err) < 0)
		return -1;
	if (config->sharing > SLUICE_SHARING_NODES)
		return sluice_fail (err, "sharing is %u", config->sharing);
	if (!config->lane_count || config->lane_count > SLUICE_MAX_LANES)
		return sluice_fail (err, "%u lanes; give 1 to %d", config->lane_count,
				    SLUICE_MAX_LANES);
	for (uint32_t i = 0; i < config->lane_count; i++) {
		const struct sluice_mean_field_lane *lane = &config->lanes[i];
		if (!(lane->targets >= 1.0 && lane->targets <= 1e9 && lane->servers > 0.0
		      && lane->servers <= 1e9))
			return sluice_fail (err, "lane %u has %g targets on %g servers", i,
					    lane->targets, lane->servers);
	}
	return config->allocator ? check_targets (config, err) : 0;
}

void
sluice_mean_field_config_perturb (struct sluice_mean_field_config *config, uint64_t seed,
				  double sd)
{
	uint64_t counter = 0;
#define SHAKE(name, value, low, high, unit, text)                                          \
	config->name *= exp (sd * sluice_normal (seed, counter++));                        \
	config->name = fmin (fmax (config->name, low), high);
	SLUICE_MEAN_FIELD_FIELDS (SHAKE)
#undef SHAKE
}

static double
known_or (double value, double otherwise)
{
	return value >= 0.0 ? value : otherwise;
}

struct sluice_mean_field_lane
sluice_mean_field_total (const struct sluice_mean_field_config *config)
{
	struct sluice_mean_field_lane all = { 0.0, 0.0 };
	for (uint32_t i = 0; i < config->lane_count; i++) {
		all.targets += config->lanes[i].targets;
		all.servers += config->lanes[i].servers;
	}
	return all;
}

uint32_t
sluice_mean_field_links (const struct sluice_mean_field_config *config)
{
	struct sluice_mean_field_lane all = sluice_mean_field_total (config);
	return (uint32_t)fmin (fmax (1.0, floor (all.servers + 0.5)), all.targets);
}

/* A file a process goes to one target each. Other files are striped over the targets of
 * earlier runs, else over as many as the job's rate alone fills. */
static void
set_width (const struct sluice_profile *p, const struct sluice_mean_field_config *config,
	   struct sluice_mean_field_load *out)
{
	double all = sluice_mean_field_total (config).targets;
	double rate = fmin (out->cap, out->outstanding / out->cycle);
	double width = p->targets >= 1.0 ? floor (p->targets + 0.5) : 1.0;
	while (!(p->targets >= 1.0) && width < rate * out->target_seconds * (1.0 - 1e-9))
		width *= 2.0;
	out->width = width < all ? (uint32_t)width : 0;
	if (p->shared_share >= 0.0 && p->shared_share < 0.5 && p->nprocs >= 2.0)
		out->files = (uint32_t)fmin (floor (p->nprocs + 0.5), most_files);
}

/* The rhythm: bursts, their length and the computing between them. */
static void
set_rhythm (const struct sluice_profile *p, double runtime, uint32_t max_bursts,
	    struct sluice_mean_field_load *out)
{
	double share = fmin (known_or (p->io_share, 0.0), 1.0);
	double period = p->period_seconds > 0.0 ? p->period_seconds : usual_period;
	double bursts = fmax (1.0, fmin (floor (runtime / period), max_bursts));
	out->async = p->async_io > 0.5;
	out->compute = runtime;
	if (!(share > 0.0) || !(runtime > 0.0))
		return;
	out->bursts = (uint32_t)bursts;
	out->burst = share * runtime / bursts;
	out->compute = (out->async ? 1.0 : 1.0 - share) * runtime / bursts;
}

/* A process waits for each metadata operation: where there are more of these than
 * requests, a request is one operation with its part of the bytes. */
static void
set_operations (double metadata_rate, double processes, struct sluice_mean_field_load *out)
{
	double part = out->cap / metadata_rate;
	out->target_seconds *= part;
	out->server_seconds *= part;
	out->cap = metadata_rate;
	out->outstanding = processes;
	out->cycle = processes / metadata_rate;
}

void
sluice_mean_field_load_of (const struct sluice_profile *p, double nodes, double runtime,
			   uint32_t max_bursts,
			   const struct sluice_mean_field_config *config,
			   struct sluice_mean_field_load *out)
{
	memset (out, 0, sizeof *out);
	out->weight = fmax (nodes, 1.0);
	out->most_held = INFINITY;
	out->program = sluice_turns_program (p);
	set_rhythm (p, runtime, max_bursts, out);

	double streams = sluice_profile_streaming_share (p);
	double creates = sluice_profile_creating_share (p);
	double chunk = p->chunk_bytes >= 1.0 ? p->chunk_bytes : mib;
	/* The cache joins what streams to full requests; what is flushed goes as it is. */
	double flushed = fmin (chunk, config->request_bytes);
	double bytes = streams * config->request_bytes + (1.0 - streams) * flushed;
	double window
	    = creates * config->stream_window + (1.0 - creates) * config->rewrite_window;
	double in_flight = fmin (fmax (chunk / config->request_bytes, 1.0), window);
	double processes = p->nprocs >= 1.0 ? p->nprocs : out->weight;
	out->outstanding
	    = processes * (streams * config->stream_window + (1.0 - streams) * in_flight);

	double flushes = (1.0 - streams) * fmin (1.0, bytes / chunk);
	out->target_seconds
	    = bytes / config->target_bandwidth + flushes * config->commit_seconds;
	out->server_seconds = bytes / config->server_bandwidth;
	double operations
	    = known_or (p->creates_per_mib, creates * mib / chunk) * bytes / mib;

	double rate
	    = fmin (out->weight * config->node_rate,
		    sluice_mean_field_total (config).targets * config->target_bandwidth);
	out->cap = (p->rate > 0.0 ? p->rate : rate) / bytes;
	if (p->metadata_rate > 0.0)
		operations = fmax (operations, p->metadata_rate / out->cap);
	out->metadata_seconds = operations / config->metadata_rate;
	double service = out->target_seconds + out->server_seconds;
	/* Of the requests of a flushed chunk, those of the last window are waited for. */
	double waited = (1.0 - streams) * fmin (1.0, in_flight * flushed / chunk);
	out->cycle = (1.0 - waited) * service + waited * out->outstanding / out->cap;
	/* No window is too small for the rate that was measured alone. */
	out->outstanding = fmax (out->outstanding, out->cap * out->cycle);
	if (p->metadata_rate > out->cap) {
		out->metadata_seconds *= out->cap / p->metadata_rate;
		set_operations (p->metadata_rate, processes, out);
	}
	if (config->allocator)
		set_width (p, config, out);
}

/* The same where targets are told apart: on as many as it writes on, of servers in turn. */
static double
alone_on_targets (const struct sluice_mean_field_config *config,
		  const struct sluice_mean_field_load *load, double rate)
{
	struct sluice_mean_field_lane all = sluice_mean_field_total (config);
	double targets = load->width ? load->width : all.targets;
	double links = sluice_mean_field_links (config);
	double on_a_link = load->server_seconds * links / all.servers;
	if (load->target_seconds > 0.0)
		rate = fmin (rate, targets / load->target_seconds);
	if (load->metadata_seconds > 0.0)
		rate = fmin (rate, 1.0 / load->metadata_seconds);
	if (on_a_link > 0.0)
		rate = fmin (rate, targets / ceil (targets / links) / on_a_link);
	return rate;
}

double
sluice_mean_field_alone_rate (const struct sluice_mean_field_config *config,
			      const struct sluice_mean_field_load *load)
{
	double targets = sluice_mean_field_total (config).targets;
	double rate = fmin (load->cap, load->outstanding / load->cycle);
	if (config->allocator)
		return alone_on_targets (config, load, rate);
	if (load->target_seconds > 0.0)
		rate = fmin (rate, targets / load->target_seconds);
	if (load->metadata_seconds > 0.0)
		rate = fmin (rate, 1.0 / load->metadata_seconds);
	for (uint32_t i = 0; i < config->lane_count && load->server_seconds > 0.0; i++) {
		const struct sluice_mean_field_lane *lane = &config->lanes[i];
		rate = fmin (rate, targets * lane->servers
				       / (load->server_seconds * lane->targets));
	}
	return rate;
}

void
sluice_mean_field_shares (const struct sluice_mean_field_config *config,
			  const struct sluice_mean_field_load *load, double *shares)
{
	struct sluice_mean_field_lane all = sluice_mean_field_total (config);
	double rate = load->bursts ? sluice_mean_field_alone_rate (config, load) : 0.0;
	shares[0] = rate * load->target_seconds / all.targets;
	shares[1] = rate * load->server_seconds / all.servers;
	shares[2] = rate * load->metadata_seconds;
}
