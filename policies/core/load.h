/*
 * Internal to the core: the inner loop of interference.h on bare numbers, so
 * that decide.c can prepare them once and gates.c can take the worst of a class.
 */
#ifndef SLUICE_LOAD_H
#define SLUICE_LOAD_H

#include "interference.h"

/* fmax and fmin are calls of the library because of NaN, which the loader
 * keeps out. */
static inline double
larger (double a, double b)
{
	return a > b ? a : b;
}

static inline double
smaller (double a, double b)
{
	return a < b ? a : b;
}

static inline int
is_known (double value)
{
	return value >= 0.0;
}

static inline double
clip (double value)
{
	return smaller (larger (value, 0.0), 1.0);
}

/* What a job puts on a lane while it is active, in parts that each can only slow
 * others down; the weights are shifted to the quantile already: outside the pool of streams
 * and in it. */
#define SLUICE_LOAD_PARTS(X) X (flushes) X (streams) X (demand) X (metadata)

struct sluice_load {
#define PART(name) double name;
	SLUICE_LOAD_PARTS (PART)
	double hot; /* of a victim: no sum has it */
};

enum {
	SLUICE_AGAINST = 1, /* as another job: heavier by its deviation */
	SLUICE_VICTIM = -1, /* as the victim: lighter */
};

struct sluice_load sluice_load_of (const struct sluice_pressure *pressure, double z,
				   int side);
struct sluice_load sluice_load_add (struct sluice_load a, struct sluice_load b);
/* What is left of a sum when a part of it goes; never below 0. */
struct sluice_load sluice_load_less (struct sluice_load sum, struct sluice_load part);
struct sluice_load sluice_load_scale (struct sluice_load load, double factor);
/* The larger one in each part: presses at least as much as either. */
struct sluice_load sluice_load_most (struct sluice_load a, struct sluice_load b);
/* Of a job with its files elsewhere: all jobs share the metadata server. */
struct sluice_load sluice_load_elsewhere (struct sluice_load load);

/* rho of victim while active presses on its targets. */
double sluice_load_rate (struct sluice_load victim, struct sluice_load active,
			 const struct sluice_interference *model);

/* sluice_overlap when rho of the pair is known. */
double sluice_load_overlap (const struct sluice_pressure *victim,
			    const struct sluice_pressure *other, double rho);
/* Its mean over all offsets, with equal periods too: what is to be expected, not what a
 * bound has to hold against. */
double sluice_load_mean_overlap (const struct sluice_pressure *victim,
				 const struct sluice_pressure *other, double rho);

/* What each set of up to SLUICE_EXACT_CORUNNERS others puts on a lane. Bit i of a
 * set's index says whether the i-th is on, so the last set is all of them. */
enum { SLUICE_MAX_SETS = 1 << SLUICE_EXACT_CORUNNERS };

struct sluice_load_sets {
	uint32_t n; /* others; 2^n sets */
	double flushes[SLUICE_MAX_SETS];
	double streams[SLUICE_MAX_SETS];
	double demand[SLUICE_MAX_SETS];
	double metadata[SLUICE_MAX_SETS];
};

void sluice_load_sets_of (const struct sluice_load *others, uint32_t n,
			  struct sluice_load_sets *out);

/* rho of victim while `always` is active and one of the sets next to it, by set. */
void sluice_load_rates (struct sluice_load victim, struct sluice_load always,
			const struct sluice_load_sets *sets,
			const struct sluice_interference *model, double *rates);

/* Mean of what holds in each set, when each of n others is on with its own
 * probability, independently. */
double sluice_load_mean (const double *by_set, const double *overlaps, uint32_t n);

/* Mean of sluice_load_rates. */
double sluice_load_mean_rate (struct sluice_load victim, struct sluice_load always,
			      const struct sluice_load_sets *sets, const double *overlaps,
			      const struct sluice_interference *model);

/* The order by which sluice_io_factor chooses the jobs that it enumerates: a total order
 * by content, so that the strongest of a set do not depend on how it is listed. */
int sluice_pressure_is_stronger (const struct sluice_pressure *a,
				 const struct sluice_pressure *b);

#endif
