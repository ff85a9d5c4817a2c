/* Joins the engine's jobs with the mean-field storage model's slots. */
#include <math.h>
#include <stdlib.h>

#include "contended.h"

struct sluice_contended {
	struct sluice_replay_storage table;
	struct sluice_mean_field *mean_field;
	const struct sluice_mean_field_load *loads;
	const uint32_t *lanes;
	uint32_t *slots; /* of the running jobs, by job */
	struct sluice_contention *results;
};

static int
start (void *self, double now, uint32_t job, uint32_t lane_mask)
{
	struct sluice_contended *c = self;
	uint32_t lanes = lane_mask ? lane_mask : c->lanes ? c->lanes[job] : 0;
	int64_t slot
	    = sluice_mean_field_start (c->mean_field, now, &c->loads[job], lanes, job);
	if (slot < 0)
		return -1;
	c->slots[job] = (uint32_t)slot;
	return 0;
}

static void
note (struct sluice_contended *c, const struct sluice_mean_field_end *end)
{
	c->results[end->tag] = (struct sluice_contention){
		.alone = end->alone,
		.io = end->io,
		.io_alone = end->io_alone,
		.held = end->held,
	};
}

static void
stop (void *self, double now, uint32_t job)
{
	struct sluice_contended *c = self;
	struct sluice_mean_field_end end;
	sluice_mean_field_stop (c->mean_field, now, c->slots[job], &end);
	note (c, &end);
}

static int
run (void *self, double until, struct sluice_replay_storage_end *out)
{
	struct sluice_contended *c = self;
	struct sluice_mean_field_end end;
	if (!sluice_mean_field_run (c->mean_field, until, &end))
		return 0;
	note (c, &end);
	out->time = end.time;
	out->job = (uint32_t)end.tag;
	return 1;
}

struct sluice_contended *
sluice_contended_new (const struct sluice_mean_field_config *config,
		      const struct sluice_mean_field_load *loads, const uint32_t *lanes,
		      uint32_t job_count, struct sluice_error *err)
{
	struct sluice_contended *c = calloc (1, sizeof *c);
	if (c) {
		c->table = (struct sluice_replay_storage){ c, start, stop, run };
		c->loads = loads;
		c->lanes = lanes;
		c->slots = calloc ((size_t)job_count + 1, sizeof *c->slots);
		c->results = calloc ((size_t)job_count + 1, sizeof *c->results);
	}
	if (!c || !c->slots || !c->results)
		sluice_fail (err, "no memory for the storage of %u jobs", job_count);
	else if ((c->mean_field = sluice_mean_field_new (config, err)))
		return c;
	sluice_contended_destroy (c);
	return NULL;
}

void
sluice_contended_destroy (struct sluice_contended *c)
{
	if (!c)
		return;
	sluice_mean_field_destroy (c->mean_field);
	free (c->slots);
	free (c->results);
	free (c);
}

const struct sluice_replay_storage *
sluice_contended_storage (struct sluice_contended *c)
{
	return &c->table;
}

void
sluice_contended_watch (struct sluice_contended *c, sluice_turns_watch *watch,
			void *watcher)
{
	sluice_mean_field_watch_turns (c->mean_field, watch, watcher);
}

const struct sluice_contention *
sluice_contended_results (const struct sluice_contended *c)
{
	return c->results;
}

/* What grows with the nodes of a job; unknown stays unknown. */
static void
multiply (struct sluice_profile *profile, double times)
{
	double *of_nodes[] = { &profile->nprocs, &profile->rate, &profile->metadata_rate };
	for (size_t i = 0; i < sizeof of_nodes / sizeof *of_nodes; i++)
		if (*of_nodes[i] > 0.0)
			*of_nodes[i] *= times;
}

void
sluice_contended_loads (const struct sluice_profile *kinds, const uint32_t *kind,
			const double *io_share, const double *period, const double *times,
			const double *nodes, const double *runtime, uint32_t count,
			uint32_t max_bursts, const struct sluice_mean_field_config *config,
			struct sluice_mean_field_load *out)
{
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_profile profile = kinds[kind[i]];
		profile.io_share = io_share[i];
		if (period[i] > 0.0)
			profile.period_seconds = period[i];
		multiply (&profile, times[i]);
		sluice_mean_field_load_of (&profile, nodes[i], runtime[i], max_bursts,
					   config, &out[i]);
	}
}

static void
limit (const struct sluice_mean_field_config *config, double node_rate,
       struct sluice_mean_field_load *load)
{
	double bytes = load->server_seconds * config->server_bandwidth;
	if (!load->bursts || !(bytes > 0.0))
		return;
	double before = sluice_mean_field_alone_rate (config, load);
	load->cap = fmin (load->cap, node_rate * load->weight / bytes);
	load->burst *= before / sluice_mean_field_alone_rate (config, load);
}

int
sluice_contended_limit (const struct sluice_mean_field_config *config, double node_rate,
			struct sluice_mean_field_load *loads, uint32_t count,
			struct sluice_error *err)
{
	if (sluice_mean_field_config_check (config, err) < 0)
		return -1;
	for (uint32_t i = 0; i < count; i++)
		limit (config, node_rate, &loads[i]);
	return 0;
}

void
sluice_contended_shares (const struct sluice_mean_field_load *loads, uint32_t count,
			 const struct sluice_mean_field_config *config, double *out)
{
	double targets = 0.0, servers = 0.0;
	for (uint32_t i = 0; i < config->lane_count; i++) {
		targets += config->lanes[i].targets;
		servers += config->lanes[i].servers;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct sluice_mean_field_load *load = &loads[i];
		double *share = &out[(size_t)i * SLUICE_MEAN_FIELD_STATIONS];
		double rate
		    = load->bursts ? sluice_mean_field_alone_rate (config, load) : 0.0;
		share[0] = rate * load->target_seconds / targets;
		share[1] = rate * load->server_seconds / servers;
		share[2] = rate * load->metadata_seconds;
	}
}
