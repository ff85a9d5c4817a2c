/*
 * The rates of all active bursts: one unknown a station, solved in turn until
 * none moves. In effect a coordinate ascent in the waits (the network's prices).
 */
#include <math.h>

#include "mean_field_state.h"

enum { MAX_SWEEPS = 64 };	  /* over all stations; two are usual */
static const double still = 1e-9; /* a sweep that moves waits less is the last */

/* The part of a lane's time that is not lost between programs. */
static double
capacity (const struct sluice_mean_field *w, const struct mean_field_lane *lane)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < lane->count && w->config.switch_cost > 0.0; i++)
		count += w->jobs[lane->active[i]].allowed > 0.0;
	double others = count ? 1.0 - 1.0 / (double)count : 0.0;
	return 1.0 / (1.0 + w->config.switch_cost * others);
}

/* Whether a station needs no look: it was not full, and would not be if nobody
 * waited anywhere, by more than the rounding of its sum. */
static int
is_idle (double peak, double wait, double full)
{
	return !(wait > 0.0) && peak < full * (1.0 - still);
}

/* The stations of one lane in turn. Counts those that may be full. */
static double
fill_lane (struct sluice_mean_field *w, uint32_t i, uint32_t *busy)
{
	struct mean_field_lane *lane = &w->lanes[i];
	double full = capacity (w, lane), moved = 0.0;
	if (!is_idle (lane->target_peak, lane->target_wait, full)) {
		moved = mean_field_fill_station (w, MEAN_FIELD_TARGET, i, full);
		++*busy;
	}
	if (!is_idle (lane->server_peak, lane->server_wait, 1.0)) {
		moved
		    = fmax (moved, mean_field_fill_station (w, MEAN_FIELD_SERVER, i, 1.0));
		++*busy;
	}
	return moved;
}

/* One turn over the stations of some lanes. Returns the largest move of a wait; 0
 * too where only one may be full, as nothing else can move it again. */
static double
sweep (struct sluice_mean_field *w, uint32_t lanes)
{
	uint32_t busy = 0;
	double moved = 0.0;
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		struct mean_field_lane *lane = &w->lanes[mean_field_home (rest)];
		if (lane->count)
			moved = fmax (moved, fill_lane (w, mean_field_home (rest), &busy));
		else
			lane->target_wait = lane->server_wait = 0.0;
	}
	if (!is_idle (w->metadata_peak, w->metadata_wait, 1.0)) {
		moved = fmax (moved,
			      mean_field_fill_station (w, MEAN_FIELD_METADATA, 0, 1.0));
		busy++;
	}
	return busy > 1 ? moved : 0.0;
}

/* Every lane that a change on the dirty ones can reach through wide jobs. */
static uint32_t
reach (const struct sluice_mean_field *w, uint32_t lanes)
{
	if (!w->wide_count)
		return lanes;
	for (uint32_t before = 0; before != lanes;) {
		before = lanes;
		for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
			const struct mean_field_lane *lane
			    = &w->lanes[mean_field_home (rest)];
			for (uint32_t i = 0; i < lane->count; i++)
				lanes |= w->jobs[lane->active[i]].mask;
		}
	}
	return lanes;
}

static void
set_speeds (struct sluice_mean_field *w, uint32_t lanes)
{
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		uint32_t home = mean_field_home (rest);
		const struct mean_field_lane *lane = &w->lanes[home];
		for (uint32_t i = 0; i < lane->count; i++) {
			struct mean_field_job *job = &w->jobs[lane->active[i]];
			if (mean_field_home (job->mask) != home)
				continue;
			double speed = mean_field_rate_of (w, job) / job->alone;
			/* The roots' tolerance must not show in a job that is alone. */
			speed = speed > 1.0 - 1e-9 ? 1.0 : speed;
			if (speed < job->speed || speed > job->speed)
				mean_field_set_speed (w, job, speed);
		}
	}
}

void
mean_field_solve (struct sluice_mean_field *w)
{
	uint32_t lanes = reach (w, w->dirty);
	w->dirty = 0;
	if (!is_idle (w->metadata_peak, w->metadata_wait, 1.0))
		lanes = mean_field_all_lanes (w);
	for (int i = 0; i < MAX_SWEEPS; i++)
		if (sweep (w, lanes) <= still)
			break;
	set_speeds (w, lanes);
}
