#include <math.h>
#include <string.h>

#include "load.h"

/* ln of how much less than its kind of traffic a program may get alone and still get
 * all that it can, where a site measured its kinds. */
static const double log_rate_slack = 1.0;
/* Logarithms of weights stay below this, so that weights, their sums and their
 * ratios stay finite whatever a bundle holds. */
static const double largest_log = 100.0;
static const double mib = 1048576.0;

void
sluice_interference_init (struct sluice_interference *model)
{
	memset (model, 0, sizeof *model);
#define SET(name, def, text) model->name = def;
	SLUICE_INTERFERENCE_FIELDS (SET)
#undef SET
}

static int
is_share_lost (double loss)
{
	return loss >= 0.0 && loss < 1.0;
}

int
sluice_interference_check (const struct sluice_interference *model,
			   struct sluice_error *err)
{
#define CHECK(name, def, text)                                                             \
	if (!(fabs (model->name) <= 100.0))                                                \
		return sluice_fail (err, "interference coefficient %s is %g", #name,       \
				    model->name);
	SLUICE_INTERFERENCE_FIELDS (CHECK)
#undef CHECK
	if (model->capacity < 1.0)
		return sluice_fail (err, "interference capacity is %g, below 1",
				    model->capacity);
	if (model->create_overhead < 0.0 || model->rewrite_overhead < 0.0
	    || model->pooling < 0.0 || model->log_sd < 0.0 || model->hot_load < 0.0)
		return sluice_fail (err, "a negative overhead, pooling, deviation or load");
	if (!is_share_lost (model->hot_write_loss) || !is_share_lost (model->hot_read_loss))
		return sluice_fail (err, "a loss on hot targets is not in 0..1");
	return 0;
}

enum { STREAMING, CREATING, LEVEL, PROCESSES, READING };

/* log2 of a chunk in MiB; of the other one where it is unknown, or of 1 MiB. */
static double
level (double chunk, double other)
{
	double known = chunk >= 1.0 ? chunk : other;
	return known >= 1.0 ? log2 (known / mib) : 0.0;
}

void
sluice_traffic_features (const struct sluice_profile *p,
			 double features[SLUICE_TRAFFIC_FEATURES])
{
	features[STREAMING] = sluice_profile_streaming_share (p);
	features[CREATING] = sluice_profile_creating_share (p);
	double reads = features[READING] = sluice_profile_reading_share (p);
	features[LEVEL] = (1.0 - reads) * level (p->chunk_bytes, p->read_chunk_bytes)
			  + reads * level (p->read_chunk_bytes, p->chunk_bytes);
	features[PROCESSES] = p->nprocs >= 1.0 ? log2 (p->nprocs) : 0.0;
}

static double
clip_log (double ln)
{
	return fmax (-largest_log, fmin (largest_log, ln));
}

static int
measured_flushes (const struct sluice_interference *m)
{
	return m->create_overhead > 0.0 || m->rewrite_overhead > 0.0;
}

/* ln e of a kind of traffic. */
static double
log_efficiency (const double features[SLUICE_TRAFFIC_FEATURES],
		const struct sluice_interference *m)
{
	double k = features[CREATING];
	double flush = k * m->create_overhead + (1.0 - k) * m->rewrite_overhead;
	double waits = 1.0 - features[STREAMING] - features[READING];
	return -log1p (larger (0.0, waits) * flush * exp2 (-features[LEVEL]));
}

double
sluice_log_efficiency (const struct sluice_profile *profile,
		       const struct sluice_interference *model)
{
	double features[SLUICE_TRAFFIC_FEATURES];
	sluice_traffic_features (profile, features);
	return log_efficiency (features, model);
}

static void
set_weight (const double features[SLUICE_TRAFFIC_FEATURES], double ln_e,
	    const struct sluice_interference *m, struct sluice_pressure *out)
{
	double s = features[STREAMING], k = features[CREATING];
	double chunk = features[LEVEL] * log (2.0) - ln_e;
	double processes = m->process_exponent * features[PROCESSES] * log (2.0);
	double exponent = k * m->create_exponent + (1.0 - k) * m->rewrite_exponent;
	double level = (1.0 - k) * m->rewrite_level + features[READING] * m->read_level;
	double flushes = (1.0 - s) * exp (clip_log (level + exponent * chunk + processes));
	double streams = s * exp (clip_log (m->stream_level + processes));

	out->weight = flushes + streams;
	out->streaming = streams / out->weight;
}

/* Share of the metadata server: by the rate, or by the files it creates, or
 * all of it for a job whose pattern is nothing but metadata. */
static double
metadata_share (const struct sluice_profile *p, const struct sluice_policy *policy)
{
	if (is_known (p->metadata_rate))
		return clip (p->metadata_rate / policy->metadata_capacity);
	if (is_known (p->creates_per_mib) && is_known (p->rate))
		return clip (p->creates_per_mib * p->rate / mib
			     * (1.0 - sluice_profile_reading_share (p))
			     / policy->metadata_capacity);
	return p->pattern == SLUICE_PATTERN_METADATA ? 1.0 : 0.0;
}

/* What lanes have together. */
struct reach {
	double bandwidth; /* 0: unknown */
	double targets;
};

static struct reach
reach_of (const struct sluice_policy *policy, uint32_t lane_mask)
{
	struct reach r = { 0 };
	int is_known = 1;
	for (uint32_t i = 0; i < policy->lane_count; i++)
		if (lane_mask >> i & 1) {
			r.targets += policy->lanes[i].targets;
			r.bandwidth += policy->lanes[i].bandwidth;
			is_known &= policy->lanes[i].bandwidth > 0.0;
		}
	if (!is_known)
		r.bandwidth = 0.0;
	return r;
}

/*
 * How often and how long the targets are busy with the job. What a cache takes
 * faster than all targets together is written back later, so they are busy for
 * longer than the program was writing, by the ratio `stretch`.
 */
static void
set_activity (const struct sluice_profile *p, double stretch, struct sluice_pressure *out)
{
	double share = is_known (p->io_share) ? p->io_share : 1.0;
	double burst = larger (p->burst_seconds, 0.0);

	out->io_share = share * stretch / (1.0 - share + share * stretch);
	out->burst = burst * stretch;
	out->period
	    = p->period_seconds > 0.0 ? p->period_seconds + burst * (stretch - 1.0) : 0.0;
}

/* What a job loses while others press as much as it does. */
static double
hot_loss (const struct sluice_profile *p, double demand,
	  const struct sluice_interference *model)
{
	double reads = sluice_profile_reading_share (p);
	double busy = smaller (1.0, model->hot_load * demand);
	double lost = (1.0 - reads) * model->hot_write_loss + reads * model->hot_read_loss;
	return lost * busy * busy;
}

void
sluice_pressure_of (const struct sluice_profile *p, const struct sluice_interference *model,
		    const struct sluice_policy *policy, uint32_t lane_mask,
		    struct sluice_pressure *out)
{
	uint32_t all = policy->lane_count ? (1u << policy->lane_count) - 1 : 0;
	uint32_t mask = lane_mask & all ? lane_mask & all : all;
	struct reach reach = reach_of (policy, mask), whole = reach_of (policy, all);
	double served = sluice_profile_served_share (p), rate = p->rate * served;
	int rate_known = p->rate > 0.0 && reach.bandwidth > 0.0;
	double stretch = rate > whole.bandwidth && whole.bandwidth > 0.0
			     ? rate / whole.bandwidth
			     : 1.0;
	rate /= stretch;

	double features[SLUICE_TRAFFIC_FEATURES];
	sluice_traffic_features (p, features);
	double ln_e = log_efficiency (features, model);
	if (rate_known) {
		/* A program can get the rate that it was observed to get alone; and where
		 * that is about as much as its kind gets, it can get no more. */
		double observed = log (rate / larger (whole.bandwidth, reach.bandwidth));
		double slack = measured_flushes (model) ? log_rate_slack : 0.0;
		ln_e = larger (smaller (0.0, observed), ln_e - slack);
	}

	set_activity (p, stretch, out);
	set_weight (features, ln_e, model, out);
	out->log_sd = sqrt (model->log_sd * model->log_sd + p->log_sd * p->log_sd);
	out->metadata = metadata_share (p, policy);
	out->async_io = p->async_io >= 0.5 ? 1.0 : 0.0;

	/* At an unknown rate a job uses all there is, as far as it moves data. */
	double data
	    = served > 0.0 ? 1.0 - clip ((double)p->share[SLUICE_PATTERN_METADATA]) : 0.0;
	double most = reach.bandwidth * exp (clip_log (ln_e));
	out->demand = rate_known ? clip (rate / most) : data;
	out->hot = rate_known ? hot_loss (p, out->demand, model) : 0.0;
	out->confined = 1.0;
	if (mask != all) {
		double used = p->targets >= 1.0 ? smaller (p->targets, whole.targets)
						: whole.targets;
		out->confined = rate_known ? smaller (1.0, most / rate)
					   : smaller (1.0, reach.targets / (used * data));
	}
}

void
sluice_pressure_slow_down (struct sluice_pressure *pressure, double speed)
{
	if (speed >= 1.0 || pressure->demand <= 0.0)
		return;
	/* what it would take alone, as a share of what its lanes give to their peers */
	double wanted
	    = pressure->confined < 1.0 ? 1.0 / pressure->confined : pressure->demand;
	pressure->demand = smaller (1.0, wanted / speed);
	pressure->confined = smaller (1.0, speed / wanted);
}

struct sluice_load
sluice_load_of (const struct sluice_pressure *pressure, double z, int side)
{
	double shift = smaller (z * pressure->log_sd, largest_log);
	double weight = pressure->weight * exp (side * shift);
	struct sluice_load load = {
		.flushes = (1.0 - pressure->streaming) * weight,
		.streams = pressure->streaming * weight,
		.demand = pressure->demand,
		.metadata = pressure->metadata,
		.hot = pressure->hot,
	};
	return load;
}

struct sluice_load
sluice_load_add (struct sluice_load a, struct sluice_load b)
{
#define ADD(part) a.part += b.part;
	SLUICE_LOAD_PARTS (ADD)
	return a;
}

struct sluice_load
sluice_load_less (struct sluice_load sum, struct sluice_load part)
{
#define TAKE(name) sum.name = larger (0.0, sum.name - part.name);
	SLUICE_LOAD_PARTS (TAKE)
	return sum;
}

struct sluice_load
sluice_load_scale (struct sluice_load load, double factor)
{
#define SCALE(part) load.part *= factor;
	SLUICE_LOAD_PARTS (SCALE)
	return load;
}

struct sluice_load
sluice_load_most (struct sluice_load a, struct sluice_load b)
{
#define MOST(part) a.part = larger (a.part, b.part);
	SLUICE_LOAD_PARTS (MOST)
	return a;
}

struct sluice_load
sluice_load_elsewhere (struct sluice_load load)
{
	load.flushes = load.streams = load.demand = 0.0;
	return load;
}

/* What weights alone give a victim. The weights v of interference.h are multiplied by
 * 1 + kappa U: their ratio counts. */
static inline double
guaranteed_share (struct sluice_load victim, double flushes, double streams,
		  const struct sluice_interference *model)
{
	double pool = 1.0 + model->pooling * (victim.streams + streams);
	double own = victim.flushes * pool + victim.streams;
	double all = own + flushes * pool + streams;
	return model->capacity * (own / all);
}

/* Of a victim with a demand. Without branches, as sluice_load_rates runs it over many
 * sets at once. */
static inline double
data_rate (struct sluice_load victim, double flushes, double streams, double demand,
	   const struct sluice_interference *model)
{
	double left = model->capacity - demand;
	double guaranteed = guaranteed_share (victim, flushes, streams, model);
	double hot = 1.0 - victim.hot * smaller (1.0, demand / victim.demand);
	/* the guaranteed share or what is left; each step rounds monotonically, so that
	 * more co-runners never helps, not by the last digit either */
	return smaller (larger (guaranteed, left) / victim.demand, hot);
}

/* The metadata server takes operations as they come: an overload stretches
 * all jobs alike. */
static inline double
stretched_rate (double rate, double operations)
{
	return smaller (rate, 1.0 / operations);
}

double
sluice_load_rate (struct sluice_load victim, struct sluice_load active,
		  const struct sluice_interference *model)
{
	double rate = victim.demand > 0.0 ? data_rate (victim, active.flushes,
						       active.streams, active.demand, model)
					  : 1.0;
	return stretched_rate (rate, victim.metadata + active.metadata);
}

void
sluice_load_sets_of (const struct sluice_load *others, uint32_t n,
		     struct sluice_load_sets *out)
{
	out->n = n;
	out->flushes[0] = out->streams[0] = 0.0;
	out->demand[0] = out->metadata[0] = 0.0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t half = 1u << i;
#ifndef __clang__ /* which sees for itself that the halves are apart */
#pragma GCC ivdep
#endif
		for (uint32_t off = 0; off < half; off++) {
			uint32_t on = off + half;
			out->flushes[on] = out->flushes[off] + others[i].flushes;
			out->streams[on] = out->streams[off] + others[i].streams;
			out->demand[on] = out->demand[off] + others[i].demand;
			out->metadata[on] = out->metadata[off] + others[i].metadata;
		}
	}
}

void
sluice_load_rates (struct sluice_load victim, struct sluice_load always,
		   const struct sluice_load_sets *sets,
		   const struct sluice_interference *model, double *restrict rates)
{
	uint32_t count = 1u << sets->n;
	double metadata = victim.metadata + always.metadata;

	for (uint32_t s = 0; s < count; s++)
		rates[s] = 1.0;
	for (uint32_t s = 0; s < count && victim.demand > 0.0; s++)
		rates[s] = data_rate (victim, always.flushes + sets->flushes[s],
				      always.streams + sets->streams[s],
				      always.demand + sets->demand[s], model);
	if (metadata + sets->metadata[count - 1] <= 1.0)
		return; /* not even all together overload the server */
	for (uint32_t s = 0; s < count; s++)
		rates[s] = stretched_rate (rates[s], metadata + sets->metadata[s]);
}

/* One after the other, from the last on, each is averaged over being on and off. */
double
sluice_load_mean (const double *by_set, const double *overlaps, uint32_t n)
{
	double mean[SLUICE_MAX_SETS / 2];

	if (n == 0)
		return by_set[0];
	for (const double *from = by_set; n-- > 0; from = mean) {
		uint32_t half = 1u << n;
#ifndef __clang__
#pragma GCC ivdep
#endif
		for (uint32_t off = 0; off < half; off++)
			mean[off]
			    = from[off] + overlaps[n] * (from[off + half] - from[off]);
	}
	return mean[0];
}

double
sluice_load_mean_rate (struct sluice_load victim, struct sluice_load always,
		       const struct sluice_load_sets *sets, const double *overlaps,
		       const struct sluice_interference *model)
{
	double rates[SLUICE_MAX_SETS];
	sluice_load_rates (victim, always, sets, model, rates);
	return sluice_load_mean (rates, overlaps, sets->n);
}

double
sluice_rate_share (const struct sluice_pressure *victim,
		   const struct sluice_pressure *const *others, uint32_t n,
		   const struct sluice_interference *model, double z)
{
	struct sluice_load active = { 0 };
	for (uint32_t i = 0; i < n; i++)
		active = sluice_load_add (active,
					  sluice_load_of (others[i], z, SLUICE_AGAINST));
	return sluice_load_rate (sluice_load_of (victim, z, SLUICE_VICTIM), active, model);
}

void
sluice_guaranteed_shares (const struct sluice_interference *model,
			  const struct sluice_pressure *pressures, const uint32_t *members,
			  const uint32_t *sizes, uint32_t n, double *log_shares)
{
	for (uint32_t i = 0; i < n; members += sizes[i++]) {
		struct sluice_load sum = { 0 };
		struct sluice_load victim
		    = sluice_load_of (&pressures[members[0]], 0.0, SLUICE_VICTIM);
		for (uint32_t k = 1; k < sizes[i]; k++)
			sum = sluice_load_add (sum, sluice_load_of (&pressures[members[k]],
								    0.0, SLUICE_AGAINST));
		log_shares[i]
		    = log (guaranteed_share (victim, sum.flushes, sum.streams, model));
	}
}

/* Integral from 0 to x of min (max (t, 0), most) dt. */
static double
clamped_integral (double x, double most)
{
	if (x <= 0.0)
		return 0.0;
	return x <= most ? x * x / 2.0 : most * (x - most / 2.0);
}

/*
 * Mean time that the other is on while the victim does `work` seconds of work,
 * less than a whole cycle's, at rate rho alongside it and at rate 1 without. The
 * victim starts anywhere in the other's cycle of on and then off seconds.
 *
 * Starting a seconds before the other pauses it overlaps it for a seconds, but at
 * most for all the work, and at least for the work that the pause cannot take.
 * Starting e seconds before the other comes back it overlaps it for the work that
 * is left by then.
 */
static double
mean_overlap_time (double work, double on, double off, double rho)
{
	double most = work / rho;
	double least = larger (0.0, (work - off) / rho);
	double overlap_from_on = least * least + clamped_integral (smaller (on, most), on)
				 - clamped_integral (least, on)
				 + most * larger (0.0, on - most);
	double overlap_from_off
	    = rho
	      * (clamped_integral (most, on) - clamped_integral ((work - off) / rho, on));
	return (overlap_from_on + overlap_from_off) / (on + off);
}

/* may_lock: with (nearly) equal periods, over the worst offset. */
static double
overlap_of (const struct sluice_pressure *victim, const struct sluice_pressure *other,
	    double rho, int may_lock)
{
	double on = other->burst, off = other->period - other->burst;
	double work = victim->burst;

	if (on <= 0.0 || other->period <= 0.0)
		return other->io_share;
	if (off <= 0.0)
		return 1.0;
	if (work <= 0.0) /* the limit of short bursts */
		return on / (on + rho * off);

	double met;
	double longer = larger (victim->period, other->period);
	if (may_lock && victim->period > 0.0
	    && fabs (victim->period - other->period) <= 0.1 * longer) {
		/* They may lock: the worst offset, and a burst of the other ends. */
		met = smaller (on, work / rho);
	} else {
		double cycle = rho * on + off; /* work done in a cycle */
		double rest = fmod (work, cycle);
		met = (work - rest) / cycle * on + mean_overlap_time (rest, on, off, rho);
	}
	return clip (met / (work + (1.0 - rho) * met));
}

double
sluice_load_overlap (const struct sluice_pressure *victim,
		     const struct sluice_pressure *other, double rho)
{
	return overlap_of (victim, other, rho, 1);
}

double
sluice_load_mean_overlap (const struct sluice_pressure *victim,
			  const struct sluice_pressure *other, double rho)
{
	return overlap_of (victim, other, rho, 0);
}

double
sluice_overlap (const struct sluice_pressure *victim, const struct sluice_pressure *other,
		const struct sluice_interference *model, double z)
{
	return sluice_load_overlap (victim, other,
				    sluice_rate_share (victim, &other, 1, model, z));
}

void
sluice_pressure_merge (const struct sluice_pressure *const *loads, uint32_t n, double z,
		       struct sluice_pressure *out)
{
	double streams = 0.0;

	*out = (struct sluice_pressure){ .io_share = 1.0, .confined = 1.0 };
	for (uint32_t i = 0; i < n; i++) {
		const struct sluice_pressure *p = loads[i];
		double weight = p->weight * exp (z * p->log_sd);
		streams += weight * p->streaming;
		out->weight += weight;
		out->demand += p->demand;
		out->metadata += p->metadata;
	}
	out->streaming = out->weight > 0.0 ? streams / out->weight : 0.0;
}

int
sluice_pressure_is_stronger (const struct sluice_pressure *a,
			     const struct sluice_pressure *b)
{
#define COMPARE(member)                                                                    \
	if (a->member != b->member)                                                        \
		return a->member > b->member;
	COMPARE (weight)
	COMPARE (streaming)
	COMPARE (demand)
	COMPARE (metadata)
	COMPARE (io_share)
	COMPARE (burst)
	COMPARE (period)
	COMPARE (log_sd)
#undef COMPARE
	return 0;
}

double
sluice_io_factor (const struct sluice_pressure *victim,
		  const struct sluice_pressure *const *others, uint32_t n,
		  const struct sluice_interference *model, double z)
{
	const struct sluice_pressure *ranked[SLUICE_MAX_SET];
	struct sluice_load loads[SLUICE_EXACT_CORUNNERS];
	double overlaps[SLUICE_EXACT_CORUNNERS];
	struct sluice_load_sets sets;
	struct sluice_load always = { 0 };
	struct sluice_load self = sluice_load_of (victim, z, SLUICE_VICTIM);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = i;
		for (; at > 0 && sluice_pressure_is_stronger (others[i], ranked[at - 1]);
		     at--)
			ranked[at] = ranked[at - 1];
		ranked[at] = others[i];
	}
	uint32_t exact = n < SLUICE_EXACT_CORUNNERS ? n : SLUICE_EXACT_CORUNNERS;
	for (uint32_t i = 0; i < n; i++) {
		struct sluice_load load = sluice_load_of (ranked[i], z, SLUICE_AGAINST);
		if (i < exact) {
			double rho = sluice_load_rate (self, load, model);
			overlaps[i] = sluice_load_overlap (victim, ranked[i], rho);
			loads[i] = load;
		} else {
			always = sluice_load_add (always, load);
		}
	}
	sluice_load_sets_of (loads, exact, &sets);
	return larger (1.0,
		       1.0 / sluice_load_mean_rate (self, always, &sets, overlaps, model));
}

double
sluice_job_slowdown (const struct sluice_pressure *victim, double io_factor)
{
	double stretched = victim->io_share * (io_factor / victim->confined);
	if (victim->async_io > 0.0)
		return larger (1.0, stretched); /* computes all the time */
	return 1.0 - victim->io_share + stretched;
}

/* From here on a rate of metadata operations counts as a job's character. */
static const double metadata_heavy = 0.1;
/* A streaming writer leaves at least this share of its bytes in the cache. */
static const double streaming = 0.5;
/* B: a program that flushes after fewer waits for the target, whatever its chunks. */
static const double soon = 8.0 * 1048576.0;

static int
flushes_soon (const struct sluice_profile *p)
{
	return is_known (p->bytes_per_flush) && p->bytes_per_flush < soon
	       && is_known (p->write_bytes) && p->bytes_per_flush <= p->write_bytes / 2.0;
}

/* Of what its pattern does not do nothing needs to be known. */
static int
moves_little (const struct sluice_profile *p, const struct sluice_policy *policy)
{
	int is_read = p->pattern == SLUICE_PATTERN_READ;
	double main = is_read ? p->read_bytes : p->write_bytes;
	double bytes = larger (p->read_bytes, 0.0) + larger (p->write_bytes, 0.0);
	return is_known (main)
	       && bytes * sluice_profile_served_share (p) < sluice_few_bytes (policy);
}

uint32_t
sluice_class_of (const struct sluice_profile *p, const struct sluice_policy *policy)
{
	if (p->pattern == SLUICE_PATTERN_UNKNOWN || p->pattern == SLUICE_PATTERN_NONE)
		return SLUICE_CLASS_NONE;
	if (is_known (p->io_share) && p->io_share < policy->min_io_share)
		return SLUICE_CLASS_NONE;

	int is_little = moves_little (p, policy);
	if (p->pattern == SLUICE_PATTERN_METADATA
	    || (is_little && metadata_share (p, policy) >= metadata_heavy))
		return SLUICE_CLASS_META;
	if (is_little)
		return SLUICE_CLASS_NONE;
	int is_stream
	    = sluice_profile_streaming_share (p) >= streaming && !flushes_soon (p);
	return is_stream ? SLUICE_CLASS_STREAM : SLUICE_CLASS_FLUSH;
}

double
sluice_normal_quantile (double quantile)
{
	/* Newton's method on Phi (z) = quantile, from the tail's side, where it
	 * converges from everywhere; erfc is exact to the last bits. */
	double z = 0.0;
	for (int i = 0; i < 60; i++) {
		double density = exp (-z * z / 2.0) / 2.5066282746310002; /* sqrt (2 pi) */
		double step = (0.5 * erfc (-z / 1.4142135623730951) - quantile) / density;
		z -= step;
		if (fabs (step) < 1e-14)
			break;
	}
	return z;
}
