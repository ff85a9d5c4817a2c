/* Joins the engine's jobs with a storage model's slots or programs. */
#include <math.h>
#include <stdlib.h>

#include "contended.h"

enum { FEWEST_WRITES = 4 };

static const double mib = 1048576.0;
static const double operations_a_commit = 2.0; /* as agents count: a write and its flush */

struct sluice_contended {
	struct sluice_replay_storage table;
	struct sluice_mean_field *mean_field;
	const struct sluice_mean_field_load *loads;
	const uint32_t *lanes;
	uint32_t lane_count, targets[SLUICE_MAX_LANES]; /* of each lane */
	uint32_t *slots;				/* of the running jobs, by job */
	struct sluice_contention *results;
	struct sluice_discrete_event *by_request; /* NULL: mean_field answers */
	const struct sluice_program *programs;	  /* of by_request, as what follows */
	struct sluice_program_outcome *outcomes;
};

/* Blocks count the targets of their one lane; the storage model those of all lanes. */
static struct sluice_block
among_all (const struct sluice_contended *c, uint32_t lane_mask, struct sluice_block block)
{
	if (lane_mask & (lane_mask - 1))
		return (struct sluice_block){ 0, 0 };
	for (uint32_t lane = 0; lane < c->lane_count && lane_mask >> (lane + 1); lane++)
		block.first = (uint16_t)(block.first + c->targets[lane]);
	return block;
}

static int
start (void *self, double now, uint32_t job, uint32_t lane_mask, struct sluice_block block)
{
	struct sluice_contended *c = self;
	uint32_t lanes = lane_mask ? lane_mask : c->lanes ? c->lanes[job] : 0;
	int64_t slot = sluice_mean_field_start (c->mean_field, now, &c->loads[job], lanes,
						among_all (c, lane_mask, block), job);
	if (slot < 0)
		return -1;
	c->slots[job] = (uint32_t)slot;
	return 0;
}

static double
filled (void *self, uint32_t target)
{
	const struct sluice_contended *c = self;
	return sluice_mean_field_filled (c->mean_field, target);
}

static void
note (struct sluice_contended *c, const struct sluice_mean_field_end *end)
{
	c->results[end->tag] = (struct sluice_contention){
		.alone = end->alone,
		.io = end->io,
		.io_alone = end->io_alone,
		.held = end->held,
		.saving = end->saving,
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

/* What all contended storage has. The rest of *c is empty. */
static struct sluice_contended *
new_contended (const uint32_t *lanes, uint32_t job_count, struct sluice_error *err)
{
	struct sluice_contended *c = calloc (1, sizeof *c);
	if (c) {
		c->lanes = lanes;
		c->slots = calloc ((size_t)job_count + 1, sizeof *c->slots);
		c->results = calloc ((size_t)job_count + 1, sizeof *c->results);
		c->outcomes = calloc ((size_t)job_count + 1, sizeof *c->outcomes);
	}
	if (c && c->slots && c->results && c->outcomes)
		return c;
	sluice_fail (err, "no memory for the storage of %u jobs", job_count);
	sluice_contended_destroy (c);
	return NULL;
}

struct sluice_contended *
sluice_contended_new (const struct sluice_mean_field_config *config,
		      const struct sluice_mean_field_load *loads, const uint32_t *lanes,
		      uint32_t job_count, struct sluice_error *err)
{
	struct sluice_contended *c = new_contended (lanes, job_count, err);
	if (!c)
		return NULL;
	c->table = (struct sluice_replay_storage){ c, start, stop, run, filled };
	c->lane_count = config->lane_count;
	for (uint32_t lane = 0; lane < config->lane_count; lane++)
		c->targets[lane] = (uint32_t)config->lanes[lane].targets;
	c->loads = loads;
	c->mean_field = sluice_mean_field_new (config, err);
	if (c->mean_field)
		return c;
	sluice_contended_destroy (c);
	return NULL;
}

static int
start_by_request (void *self, double now, uint32_t job, uint32_t lane_mask,
		  struct sluice_block block)
{
	struct sluice_contended *c = self;
	(void)block; /* it has no single targets */
	uint32_t lanes = lane_mask ? lane_mask : c->lanes ? c->lanes[job] : 0;
	sluice_discrete_event_start (c->by_request, now, job, lanes);
	return 0;
}

/* s that a job which has ended takes alone. */
static double
alone_of (const struct sluice_program *program, const struct sluice_program_outcome *found)
{
	double bursts = fmax (program->bursts, 1.0);
	double io = found->io_alone / bursts;
	return bursts
	       * (program->overlaps ? fmax (program->compute, io) : program->compute + io);
}

static void
note_program (struct sluice_contended *c, uint32_t job, double alone)
{
	const struct sluice_program_outcome *found = &c->outcomes[job];
	c->results[job] = (struct sluice_contention){
		.alone = alone,
		.io = found->io,
		.io_alone = found->io_alone,
		.held = found->held,
		.saving = found->saving,
	};
}

static void
stop_by_request (void *self, double now, uint32_t job)
{
	struct sluice_contended *c = self;
	const struct sluice_program_outcome *found = &c->outcomes[job];
	sluice_discrete_event_stop (c->by_request, now, job);
	double lost = c->programs[job].overlaps ? 0.0 : found->io - found->io_alone;
	note_program (c, job, now - found->first_start - lost);
}

static int
run_by_request (void *self, double until, struct sluice_replay_storage_end *out)
{
	struct sluice_contended *c = self;
	int found
	    = sluice_discrete_event_next (c->by_request, until, &out->time, &out->job);
	if (found > 0)
		note_program (c, out->job,
			      alone_of (&c->programs[out->job], &c->outcomes[out->job]));
	return found > 0;
}

struct sluice_contended *
sluice_contended_by_request (const struct sluice_storage *storage,
			     const struct sluice_program *programs, const uint32_t *lanes,
			     uint32_t job_count, struct sluice_error *err)
{
	struct sluice_contended *c = new_contended (lanes, job_count, err);
	if (!c)
		return NULL;
	c->table = (struct sluice_replay_storage){ c, start_by_request, stop_by_request,
						   run_by_request, NULL };
	c->programs = programs;
	c->by_request
	    = sluice_discrete_event_new (storage, programs, job_count, c->outcomes, err);
	if (c->by_request)
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
	sluice_discrete_event_destroy (c->by_request);
	free (c->outcomes);
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
	if (c->by_request)
		sluice_discrete_event_watch_turns (c->by_request, watch, watcher);
	else
		sluice_mean_field_watch_turns (c->mean_field, watch, watcher);
}

const double *
sluice_contended_written (const struct sluice_contended *c, uint32_t target)
{
	return c->mean_field ? sluice_mean_field_written (c->mean_field, target) : NULL;
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

/* A target that commits one flush after another does so many operations a second. Alone a
 * job takes no more than all of a station, as a measurement of it would show. */
static void
predict (const struct sluice_profile *profile,
	 const struct sluice_mean_field_config *config, struct sluice_mean_field_load *load)
{
	struct sluice_mean_field_lane all = sluice_mean_field_total (config);
	double demand[SLUICE_STATION_COUNT];
	sluice_turns_demand (profile, demand);
	double bytes = demand[SLUICE_STATION_BYTES] / config->target_bandwidth;
	double operations = demand[SLUICE_STATION_OPERATIONS] * config->commit_seconds
			    / operations_a_commit;
	double targets = fmax (bytes, operations) / all.targets;
	double links
	    = demand[SLUICE_STATION_LINKS] / (config->server_bandwidth * all.servers);
	double metadata = demand[SLUICE_STATION_METADATA] / config->metadata_rate;
	double most = fmax (1.0, fmax (targets, fmax (links, metadata)));
	load->target_share = targets / most;
	load->link_share = links / most;
	load->metadata_share = metadata / most;
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
		predict (&profile, config, &out[i]);
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
	for (uint32_t i = 0; i < count; i++)
		sluice_mean_field_shares (config, &loads[i],
					  &out[(size_t)i * SLUICE_MEAN_FIELD_STATIONS]);
}

int
sluice_contended_storage_of (const struct sluice_mean_field_config *config, double grain,
			     struct sluice_storage *out, struct sluice_error *err)
{
	struct sluice_mean_field_lane all = sluice_mean_field_total (config);
	if (config->allocator)
		return sluice_fail (err, "the discrete-event model has no placement; use "
					 "the mean-field model");
	if (config->sharing == SLUICE_SHARING_NODES)
		return sluice_fail (err,
				    "targets of the discrete-event model do not share by "
				    "nodes; use the mean-field model");
	for (uint32_t i = 1; i < config->lane_count; i++)
		if (config->lanes[i].targets < config->lanes[0].targets
		    || config->lanes[i].targets > config->lanes[0].targets)
			return sluice_fail (err, "lanes of the discrete-event model are "
						 "equal; give targets that divide evenly, "
						 "or use the mean-field model");
	sluice_storage_init (out);
	out->targets = floor (all.targets);
	out->servers = fmax (1.0, floor (all.servers + 0.5));
	out->server_bandwidth = config->server_bandwidth * all.servers / out->servers;
	out->target_bandwidth = config->target_bandwidth;
	out->unit_bytes = config->request_bytes * grain;
	out->flow_window = fmax (1.0, floor (config->stream_window + 0.5));
	out->rewrite_window = fmax (1.0, floor (config->rewrite_window + 0.5));
	out->commit_seconds = config->commit_seconds * grain;
	out->create_seconds = grain / config->metadata_rate;
	out->slice_bytes = out->unit_bytes;
	out->seek_seconds = config->switch_cost * out->unit_bytes / out->target_bandwidth;
	out->burst_spread = config->burst_spread;
	out->lanes = config->lane_count;
	out->shares = config->sharing != SLUICE_SHARING_FIFO;
	out->turns = config->turns;
	out->seed = config->seed;
	return 0;
}

/* How a job writes, and how many files or other metadata operations that takes. */
static void
set_writes (const struct sluice_profile *p, const struct sluice_mean_field_load *load,
	    double grain, const struct sluice_mean_field_config *config,
	    struct sluice_program *out)
{
	double chunk = p->chunk_bytes >= 1.0 ? p->chunk_bytes : mib;
	double request = load->server_seconds * config->server_bandwidth;
	double operations = load->metadata_seconds * config->metadata_rate;
	out->sync = SLUICE_SYNC_FLUSH;
	if (sluice_profile_streaming_share (p) > 0.5) {
		int waits = operations > 0.5; /* for these */
		out->sync = waits ? SLUICE_SYNC_ACK : SLUICE_SYNC_BEHIND;
		chunk = waits ? request : config->request_bytes;
	}
	out->operation_bytes = chunk * grain;
	out->creates = (uint32_t)floor (operations * chunk / request + 0.5);
	out->rewrites = sluice_profile_creating_share (p) < 0.5;
	out->rate = load->cap * request;
}

static void
program_of (const struct sluice_profile *p, const struct sluice_mean_field_load *load,
	    double grain, const struct sluice_mean_field_config *config,
	    struct sluice_program *out)
{
	sluice_program_init (out);
	out->in_step = 1;
	out->nodes = load->weight;
	out->compute = load->compute;
	out->bursts = load->bursts;
	out->overlaps = load->async;
	out->coverage = load->coverage;
	out->expected = load->expected;
	out->most_held = load->most_held;
	out->program = load->program;
	out->target_share = fmin (load->target_share, 1.0);
	out->link_share = fmin (load->link_share, 1.0);
	out->metadata_share = fmin (load->metadata_share, 1.0);
	if (!load->bursts)
		return;
	out->burst_seconds = load->burst;
	out->processes = p->nprocs >= 1.0 ? floor (p->nprocs + 0.5) : load->weight;
	set_writes (p, load, grain, config, out);
	/* A burst has several writes a process, or what is under way would be all of it. */
	double most = out->rate * load->burst / out->processes / FEWEST_WRITES;
	double least = out->operation_bytes / grain;
	out->operation_bytes = fmax (fmin (out->operation_bytes, most), least);
	double bytes = out->rate * load->burst / out->processes;
	out->operations = fmax (1.0, floor (bytes / out->operation_bytes));
}

void
sluice_contended_programs (const struct sluice_profile *kinds, const uint32_t *kind,
			   const double *times, const struct sluice_mean_field_load *loads,
			   uint32_t count, double grain,
			   const struct sluice_mean_field_config *config,
			   struct sluice_program *out)
{
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_profile profile = kinds[kind[i]];
		multiply (&profile, times[i]);
		program_of (&profile, &loads[i], grain, config, &out[i]);
	}
}
