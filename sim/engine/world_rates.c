/*
 * The rates of all active bursts: one unknown a station, solved in turn until
 * none moves. The load of a station falls as its own wait grows, so each root is
 * unique; the whole is a coordinate ascent in the waits (the network's prices).
 */
#include <float.h>
#include <math.h>

#include "world_state.h"

enum {
	MAX_SWEEPS = 64,  /* over all stations; two are usual */
	MAX_HALVINGS = 80 /* steps of one root */
};
static const double tolerance = 1e-11; /* of a station's load */
static const double still = 1e-9;      /* a sweep that changes waits less is the last */

enum station { TARGET, SERVER, METADATA };

static int
is_fair (const struct sluice_world *w)
{
	return w->config.sharing != SLUICE_SHARING_FIFO;
}

/* Seconds of a target's time per request and second, spread over its targets. */
static double
target_load (const struct world_job *job)
{
	return job->load.target_seconds / job->targets;
}

static double
server_load (const struct world_job *job, const struct sluice_world_lane *lane)
{
	return job->load.server_seconds * lane->targets / (job->targets * lane->servers);
}

/* The part of a lane's time that is not lost between programs. */
static double
capacity (const struct sluice_world *w, const struct world_lane *lane)
{
	double others = 1.0 - 1.0 / (double)lane->count;
	return 1.0 / (1.0 + w->config.switch_cost * others);
}

/*
 * x of a job by the waits now. A striped operation takes its slowest lane. A
 * fair server's wait is 1 / level: the job gets weight * level of a target.
 */
static double
rate_of (const struct sluice_world *w, const struct world_job *job)
{
	double lane_wait = 0.0, level_wait = 0.0;
	for (uint32_t rest = job->mask; rest; rest &= rest - 1U) {
		const struct world_lane *lane = &w->lanes[world_home (rest)];
		double wait = lane->server_wait;
		if (is_fair (w))
			level_wait = fmax (level_wait, lane->target_wait);
		else if (job->load.target_seconds > 0.0)
			wait += lane->target_wait;
		lane_wait = fmax (lane_wait, wait);
	}
	double meta_wait = job->load.metadata_seconds > 0.0 ? w->metadata_wait : 0.0;
	double cycle = job->load.cycle + meta_wait + lane_wait;
	double rate = fmin (job->load.cap, job->load.outstanding / cycle);
	if (level_wait > 0.0 && job->load.target_seconds > 0.0) {
		double weight
		    = w->config.sharing == SLUICE_SHARING_NODES ? job->load.weight : 1.0;
		rate = fmin (rate, weight / (target_load (job) * level_wait));
	}
	return rate;
}

static double
load_of (const struct sluice_world *w, enum station station, uint32_t lane,
	 const struct world_job *job)
{
	if (station == TARGET)
		return target_load (job);
	if (station == SERVER)
		return server_load (job, &w->config.lanes[lane]);
	return lane == world_home (job->mask) ? job->load.metadata_seconds : 0.0;
}

static double
lane_sum (const struct sluice_world *w, enum station station, uint32_t lane)
{
	double sum = 0.0;
	for (uint32_t i = 0; i < w->lanes[lane].count; i++) {
		const struct world_job *job = &w->jobs[w->lanes[lane].active[i]];
		double each = load_of (w, station, lane, job);
		if (each > 0.0)
			sum += each * rate_of (w, job);
	}
	return sum;
}

static double
station_sum (const struct sluice_world *w, enum station station, uint32_t lane)
{
	if (station != METADATA)
		return lane_sum (w, station, lane);
	double sum = 0.0;
	for (uint32_t i = 0; i < w->config.lane_count; i++)
		sum += lane_sum (w, station, i);
	return sum;
}

static double *
wait_at (struct sluice_world *w, enum station station, uint32_t lane)
{
	if (station == METADATA)
		return &w->metadata_wait;
	return station == TARGET ? &w->lanes[lane].target_wait
				 : &w->lanes[lane].server_wait;
}

/* A wait that is certainly long enough: doubled until the station is not full. */
static double
enough (struct sluice_world *w, enum station station, uint32_t lane, double full,
	double guess)
{
	double *wait = wait_at (w, station, lane);
	for (*wait = guess > 0.0 ? guess : 1e-6;
	     *wait < DBL_MAX / 4.0 && station_sum (w, station, lane) > full;)
		*wait *= 2.0;
	return *wait;
}

/* Find the wait that fills a station, 0 when it is not full: the Illinois form of
 * regula falsi, which needs no derivative and cannot leave the bracket. Returns
 * how far the wait has moved, relative to its size. */
static double
solve_station (struct sluice_world *w, enum station station, uint32_t lane, double full)
{
	double *wait = wait_at (w, station, lane);
	double before = *wait;
	*wait = 0.0;
	double low = 0.0, excess_low = station_sum (w, station, lane) - full;
	if (excess_low <= tolerance * full)
		return before > 0.0 ? 1.0 : 0.0;
	double high = enough (w, station, lane, full, before);
	double excess_high = station_sum (w, station, lane) - full;
	int last = 0;
	for (int i = 0; i < MAX_HALVINGS && fabs (excess_high) > tolerance * full; i++) {
		*wait = high - excess_high * (high - low) / (excess_high - excess_low);
		if (!(*wait > low && *wait < high))
			*wait = 0.5 * (low + high);
		double excess = station_sum (w, station, lane) - full;
		if (fabs (excess) <= tolerance * full || high - low <= DBL_EPSILON * high)
			break;
		if (excess > 0.0) {
			low = *wait;
			excess_low = excess;
			excess_high *= last > 0 ? 0.5 : 1.0;
			last = 1;
		} else {
			high = *wait;
			excess_high = excess;
			excess_low *= last < 0 ? 0.5 : 1.0;
			last = -1;
		}
	}
	return fabs (*wait - before) / fmax (*wait, before);
}

/* One turn over the stations of some lanes. Returns the largest move of a wait. */
static double
sweep (struct sluice_world *w, uint32_t lanes, int with_metadata)
{
	double moved = 0.0;
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		uint32_t i = world_home (rest);
		struct world_lane *lane = &w->lanes[i];
		if (!lane->count) {
			lane->target_wait = lane->server_wait = 0.0;
			continue;
		}
		moved = fmax (moved, solve_station (w, TARGET, i, capacity (w, lane)));
		moved = fmax (moved, solve_station (w, SERVER, i, 1.0));
	}
	if (with_metadata)
		moved = fmax (moved, solve_station (w, METADATA, 0, 1.0));
	return moved;
}

/* Every lane that a change on the dirty ones can reach through wide jobs. */
static uint32_t
reach (const struct sluice_world *w, uint32_t lanes)
{
	if (!w->wide_count)
		return lanes;
	for (uint32_t before = 0; before != lanes;) {
		before = lanes;
		for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
			const struct world_lane *lane = &w->lanes[world_home (rest)];
			for (uint32_t i = 0; i < lane->count; i++)
				lanes |= w->jobs[lane->active[i]].mask;
		}
	}
	return lanes;
}

static double
metadata_load (struct sluice_world *w, uint32_t lanes)
{
	double sum = 0.0;
	for (uint32_t i = 0; i < w->config.lane_count; i++) {
		if (lanes >> i & 1U)
			w->lanes[i].metadata = lane_sum (w, METADATA, i);
		sum += w->lanes[i].metadata;
	}
	return sum;
}

static void
sweep_until_still (struct sluice_world *w, uint32_t lanes, int with_metadata)
{
	int lone = !with_metadata && !(lanes & (lanes - 1U)) && is_fair (w);
	for (int i = 0; i < MAX_SWEEPS; i++)
		if (sweep (w, lanes, with_metadata) <= still || lone)
			break;
}

double
world_alone_rate (const struct sluice_world *w, const struct sluice_world_load *load)
{
	double rate = fmin (load->cap, load->outstanding / load->cycle);
	if (load->target_seconds > 0.0)
		rate = fmin (rate, w->all_targets / load->target_seconds);
	if (load->metadata_seconds > 0.0)
		rate = fmin (rate, 1.0 / load->metadata_seconds);
	for (uint32_t i = 0; i < w->config.lane_count && load->server_seconds > 0.0; i++) {
		const struct sluice_world_lane *lane = &w->config.lanes[i];
		rate = fmin (rate, w->all_targets * lane->servers
				       / (load->server_seconds * lane->targets));
	}
	return rate;
}

static void
set_speeds (struct sluice_world *w, uint32_t lanes)
{
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		uint32_t home = world_home (rest);
		const struct world_lane *lane = &w->lanes[home];
		for (uint32_t i = 0; i < lane->count; i++) {
			struct world_job *job = &w->jobs[lane->active[i]];
			if (world_home (job->mask) != home)
				continue;
			double speed = rate_of (w, job) / job->alone;
			/* The roots' tolerance must not show in a job that is alone. */
			speed = speed > 1.0 - 1e-9 ? 1.0 : speed;
			if (speed < job->speed || speed > job->speed)
				world_set_speed (w, job, speed);
		}
	}
}

void
world_solve (struct sluice_world *w)
{
	uint32_t lanes = reach (w, w->dirty);
	w->dirty = 0;
	if (w->metadata_wait > 0.0)
		lanes = world_all_lanes (w);
	sweep_until_still (w, lanes, w->metadata_wait > 0.0);
	if (metadata_load (w, lanes) > 1.0 + tolerance) {
		lanes = world_all_lanes (w);
		sweep_until_still (w, lanes, 1);
		metadata_load (w, lanes);
	}
	set_speeds (w, lanes);
}
