/*
 * One station of the network: with the waits everywhere else held, its load falls
 * as its own wait grows, so the wait that fills it is the root of one function.
 */
#include <float.h>
#include <math.h>

#include "mean_field_state.h"

/*
 * The rates of all active bursts: one unknown a station, solved in turn until
 * none moves. In effect a coordinate ascent in the waits (the network's prices).
 */

enum { MAX_SWEEPS = 64 };	  /* over all stations; two are usual */
static const double still = 1e-9; /* a sweep that moves waits less is the last */

double
mean_field_capacity (const struct sluice_mean_field *w, const struct mean_field_group *lane)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < lane->count && w->config.switch_cost > 0.0; i++)
		count += w->jobs[lane->active[i].slot].turn.allowed > 0.0;
	double others = count ? 1.0 - 1.0 / (double)count : 0.0;
	return 1.0 / (1.0 + w->config.switch_cost * others);
}

int
mean_field_is_idle (double peak, double wait, double full)
{
	return !(wait > 0.0) && peak < full * (1.0 - still);
}

/* The stations of one lane in turn. Counts those that may be full. */
static double
fill_lane (struct sluice_mean_field *w, uint32_t i, uint32_t *busy)
{
	struct mean_field_group *lane = &w->groups[i];
	double full = mean_field_capacity (w, lane), moved = 0.0;
	if (!mean_field_is_idle (lane->target_peak, lane->target_wait, full)) {
		moved = mean_field_fill_station (w, MEAN_FIELD_TARGET, i, full);
		++*busy;
	}
	if (!mean_field_is_idle (lane->server_peak, lane->server_wait, 1.0)) {
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
		struct mean_field_group *lane = &w->groups[mean_field_home (rest)];
		if (lane->count)
			moved = fmax (moved, fill_lane (w, mean_field_home (rest), &busy));
		else
			lane->target_wait = lane->server_wait = 0.0;
	}
	if (!mean_field_is_idle (w->metadata_peak, w->metadata_wait, 1.0)) {
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
			const struct mean_field_group *lane
			    = &w->groups[mean_field_home (rest)];
			for (uint32_t i = 0; i < lane->count; i++)
				lanes |= w->jobs[lane->active[i].slot].mask;
		}
	}
	return lanes;
}

void
mean_field_set_rate (struct sluice_mean_field *w, struct mean_field_job *job, double rate)
{
	double speed = rate / job->alone;
	/* The roots' tolerance must not show in a job that is alone. */
	speed = speed > 1.0 - 1e-9 ? 1.0 : speed;
	if (speed < job->speed || speed > job->speed)
		mean_field_set_speed (w, job, speed);
}

static void
set_speeds (struct sluice_mean_field *w, uint32_t lanes)
{
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		uint32_t home = mean_field_home (rest);
		const struct mean_field_group *lane = &w->groups[home];
		for (uint32_t i = 0; i < lane->count; i++) {
			struct mean_field_job *job = &w->jobs[lane->active[i].slot];
			if (mean_field_home (job->mask) != home)
				continue;
			mean_field_set_rate (w, job, mean_field_rate_of (w, job));
		}
	}
}

/* The lanes on which the set of bursts has changed; none is, from now on. */
static uint32_t
take_dirty (struct sluice_mean_field *w)
{
	uint32_t lanes = 0;
	for (uint32_t i = 0; i < w->group_count; i++) {
		lanes |= w->groups[i].is_dirty << i;
		w->groups[i].is_dirty = 0;
	}
	w->dirty = 0;
	return lanes;
}

void
mean_field_solve (struct sluice_mean_field *w)
{
	if (w->placement) {
		mean_field_solve_targets (w);
		return;
	}
	uint32_t lanes = reach (w, take_dirty (w));
	if (!mean_field_is_idle (w->metadata_peak, w->metadata_wait, 1.0))
		lanes = mean_field_all_lanes (w);
	for (int i = 0; i < MAX_SWEEPS; i++)
		if (sweep (w, lanes) <= still)
			break;
	set_speeds (w, lanes);
}

enum { MAX_STEPS = 100, NO_LANE = UINT32_MAX };
static const double tolerance = 1e-11; /* of a station's load */

static int
is_fair (const struct sluice_mean_field *w)
{
	return w->config.sharing != SLUICE_SHARING_FIFO;
}

/* Seconds of a target's time a request, spread over the job's targets. */
static double
target_load (const struct mean_field_job *job)
{
	return job->load.target_seconds / job->targets;
}

static double
server_load (const struct mean_field_job *job, const struct mean_field_group *lane)
{
	return job->load.server_seconds * lane->targets / (job->targets * lane->servers);
}

static double
metadata_wait (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	return job->load.metadata_seconds > 0.0 ? w->metadata_wait : 0.0;
}

/* What the lanes of a job ask of it, one of them left out (NO_LANE: none). */
struct mean_field_elsewhere {
	double wait;  /* s: the longest, as a striped operation takes its slowest */
	double level; /* fair targets: the largest 1 / level */
};

static struct mean_field_elsewhere
elsewhere (const struct sluice_mean_field *w, const struct mean_field_job *job,
	   uint32_t but)
{
	struct mean_field_elsewhere all = { job->wait, job->level };
	int fair = is_fair (w), writes = job->load.target_seconds > 0.0;
	for (uint32_t rest = w->placement ? 0 : job->mask; rest; rest &= rest - 1U) {
		uint32_t i = mean_field_home (rest);
		if (i == but)
			continue;
		const struct mean_field_group *lane = &w->groups[i];
		double queue = writes && !fair ? lane->target_wait : 0.0;
		all.wait = fmax (all.wait, lane->server_wait + queue);
		if (writes && fair)
			all.level = fmax (all.level, lane->target_wait);
	}
	return all;
}

/* Requests/s that a job's share of fair targets allows at 1 / level = 1. */
static double
fair_share (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	double weight = w->config.sharing == SLUICE_SHARING_NODES ? job->load.weight : 1.0;
	return weight / target_load (job);
}

/* The cap of a job, lowered by turns and by its share of fair targets. */
static double
cap_of (const struct sluice_mean_field *w, const struct mean_field_job *job, double level)
{
	double cap = job->turn.allowed < 1.0
			 ? fmin (job->load.cap, job->turn.allowed * job->alone)
			 : job->load.cap;
	if (!(level > 0.0))
		return cap;
	return fmin (cap, fair_share (w, job) / level);
}

double
mean_field_rate_of (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	struct mean_field_elsewhere all = elsewhere (w, job, NO_LANE);
	double cycle = job->load.cycle + metadata_wait (w, job) + all.wait;
	return fmin (cap_of (w, job, all.level), job->load.outstanding / cycle);
}

double
mean_field_load_at (const struct sluice_mean_field *w, enum mean_field_station station,
		    uint32_t group, const struct mean_field_job *job)
{
	if (station == MEAN_FIELD_TARGET)
		return target_load (job);
	if (station == MEAN_FIELD_SERVER)
		return server_load (job, &w->groups[group]);
	return mean_field_is_home (w, group, job) ? job->load.metadata_seconds : 0.0;
}

/* What a job brings to a station: load * min (cap, N / (cycle + max (alongside, here +
 * W))) where it queues for W, load * min (cap, share / W) at a fair target. */
static struct mean_field_term
term_of (const struct sluice_mean_field *w, enum mean_field_station station, uint32_t lane,
	 const struct mean_field_job *job, double load)
{
	struct mean_field_term term
	    = { .load = load, .outstanding = job->load.outstanding };
	int is_metadata = station == MEAN_FIELD_METADATA;
	struct mean_field_elsewhere other
	    = elsewhere (w, job, is_metadata ? NO_LANE : lane);
	double queue = !is_fair (w) && job->load.target_seconds > 0.0
			   ? w->groups[lane].target_wait
			   : 0.0;
	if (is_metadata) {
		term.cycle = job->load.cycle + other.wait;
		term.cap = cap_of (w, job, other.level);
		return term;
	}
	term.cycle = job->load.cycle + metadata_wait (w, job);
	term.alongside = other.wait;
	if (station == MEAN_FIELD_SERVER) {
		term.here = queue;
		term.cap = cap_of (w, job, elsewhere (w, job, NO_LANE).level);
		return term;
	}
	term.here = w->groups[lane].server_wait;
	term.cap = cap_of (w, job, other.level);
	if (is_fair (w)) {
		double wait = fmax (term.alongside, term.here);
		term.cap = fmin (term.cap, term.outstanding / (term.cycle + wait));
		term.share = fair_share (w, job);
	}
	return term;
}

struct mean_field_term
mean_field_term_of_target (const struct sluice_mean_field *w,
			   enum mean_field_station station,
			   const struct mean_field_job *job, double load)
{
	double cycle = job->load.cycle + metadata_wait (w, job);
	int is_fair_target = is_fair (w) && station == MEAN_FIELD_TARGET;
	struct mean_field_term term = {
		.load = load,
		.outstanding = job->load.outstanding,
		.cycle = cycle,
		.cap = cap_of (w, job, is_fair_target ? 0.0 : job->level),
	};
	if (is_fair_target) {
		term.cap = fmin (term.cap, term.outstanding / (cycle + job->wait));
		term.share = fair_share (w, job);
	}
	return term;
}

/* The terms of all jobs that load a station of `groups` groups from the first on. Returns
 * how many there are. */
static uint32_t
gather (struct sluice_mean_field *w, enum mean_field_station station, uint32_t first,
	uint32_t groups)
{
	uint32_t count = 0;
	for (uint32_t i = first; i < first + groups; i++) {
		for (uint32_t k = 0; k < w->groups[i].count; k++) {
			const struct mean_field_job *job
			    = &w->jobs[w->groups[i].active[k].slot];
			double load = mean_field_load_at (w, station, i, job);
			if (load > 0.0)
				w->terms[count++] = term_of (w, station, i, job, load);
		}
	}
	return count;
}

static double
excess_at (const struct mean_field_term *terms, uint32_t count, double wait, double full)
{
	double sum = 0.0;
	for (uint32_t i = 0; i < count; i++) {
		const struct mean_field_term *t = &terms[i];
		double rate = t->cap;
		if (!(t->share > 0.0))
			rate = fmin (
			    rate, t->outstanding
				      / (t->cycle + fmax (t->alongside, t->here + wait)));
		else if (wait > 0.0)
			rate = fmin (rate, t->share / wait);
		sum += t->load * rate;
	}
	return sum - full;
}

/* The root between low and high: the Illinois form of regula falsi, which needs no
 * derivative and cannot leave the bracket. */
static double
root_between (const struct mean_field_term *terms, uint32_t count, double full, double low,
	      double high)
{
	double excess_low = excess_at (terms, count, low, full);
	double excess_high = excess_at (terms, count, high, full);
	double wait = high;
	int last = 0;
	for (int i = 0; i < MAX_STEPS && fabs (excess_high) > tolerance * full; i++) {
		wait = high - excess_high * (high - low) / (excess_high - excess_low);
		if (!(wait > low && wait < high))
			wait = 0.5 * (low + high);
		double excess = excess_at (terms, count, wait, full);
		if (fabs (excess) <= tolerance * full || high - low <= DBL_EPSILON * high)
			break;
		if (excess > 0.0) {
			low = wait;
			excess_low = excess;
			excess_high *= last > 0 ? 0.5 : 1.0;
			last = 1;
		} else {
			high = wait;
			excess_high = excess;
			excess_low *= last < 0 ? 0.5 : 1.0;
			last = -1;
		}
	}
	return wait;
}

/* Most changes are small. */
double
mean_field_wait_of (const struct mean_field_term *terms, uint32_t count, double full,
		    double before)
{
	double excess = excess_at (terms, count, before, full);
	if (fabs (excess) <= tolerance * full)
		return before;
	if (excess < 0.0) {
		if (!(before > 0.0)
		    || excess_at (terms, count, 0.0, full) <= tolerance * full)
			return 0.0;
		double low = before;
		while (low > DBL_MIN && excess_at (terms, count, low, full) < 0.0)
			low *= 0.5;
		return root_between (terms, count, full, low, 2.0 * low);
	}
	double high = before > 0.0 ? 2.0 * before : 1e-6;
	while (high < DBL_MAX / 4.0 && excess_at (terms, count, high, full) > 0.0)
		high *= 2.0;
	return root_between (terms, count, full, 0.5 * high, high);
}

double
mean_field_fill_station (struct sluice_mean_field *w, enum mean_field_station station,
			 uint32_t group, double full)
{
	double *wait = &w->metadata_wait;
	uint32_t count = w->group_count;
	if (station != MEAN_FIELD_METADATA) {
		count = 1;
		wait = station == MEAN_FIELD_TARGET ? &w->groups[group].target_wait
						    : &w->groups[group].server_wait;
	}
	double before = *wait;
	count = gather (w, station, group, count);
	*wait = count ? mean_field_wait_of (w->terms, count, full, before) : 0.0;
	double larger = fmax (*wait, before);
	return larger > 0.0 ? fabs (*wait - before) / larger : 0.0;
}
