/*
 * Internal to turns: what bursts take of the stations of a storage. turns.c decides
 * which go, turns_learn.c what the stations can do.
 */
#ifndef SLUICE_TURNS_STATIONS_H
#define SLUICE_TURNS_STATIONS_H

#include "load.h"
#include "turns.h"

/* The stations of each lane one after the other, then the metadata server. */
enum { LANE_STATIONS = SLUICE_STATION_METADATA, MOST_STATIONS = SLUICE_TURNS_STATIONS };

/* s at least from a verdict until what it does is judged. */
static const double turns_settling = 1.0;

/* The stations that each target has a part of, the first of its lane's. */
enum { TARGET_STATIONS = SLUICE_STATION_OPERATIONS + 1 };

struct turns_shares {
	/* of a burst whose targets are known without what these have */
	double of[MOST_STATIONS];
	double speed; /* of full speed, at which that is taken: less than 1 where a station
		       * can do less than a job wants */
	const uint64_t *targets;	   /* of its lane; NULL: evenly on all */
	uint32_t lane, first_target;	   /* of that lane among all */
	double of_lane[TARGET_STATIONS];   /* in the mean of its targets */
	double of_target[TARGET_STATIONS]; /* of each of its own */
};

/* Of bursts whose targets are known. */
struct turns_target_sums {
	double of_lane[SLUICE_MAX_LANES][TARGET_STATIONS];
	double of[SLUICE_TURNS_TARGETS][TARGET_STATIONS];
};

/* Whether any burst names its own. */
int turns_know_targets (const struct sluice_turns_job *jobs, uint32_t n);

/* The first of a burst's targets from this one on; SLUICE_TURNS_TARGETS: there is none. */
uint32_t turns_next_target (const struct turns_shares *want, uint32_t from);
#define TURNS_EACH_TARGET(t, want)                                                         \
	(uint32_t t = turns_next_target (want, 0); t < SLUICE_TURNS_TARGETS;               \
	 t = turns_next_target (want, t + 1))

void turns_add_targets (struct turns_target_sums *sums, const struct turns_shares *want);

/* Whether two bursts can slow each other down. */
int turns_meet (const struct sluice_turns_storage *storage,
		const struct sluice_turns_job *a, const struct sluice_turns_job *b);

static inline uint32_t
turns_station_count (const struct sluice_turns_storage *storage)
{
	return LANE_STATIONS * storage->lane_count + 1;
}

/* A number that was given; nonsense counts as 0. */
static inline double
turns_sane (double value)
{
	static const double largest = 1e18;
	return value > 0.0 ? smaller (value, largest) : 0.0;
}

/* Set what a job takes of each station if no other burst slows it: all of its fullest one
 * at most, which is returned. */
double turns_want (const struct sluice_turns_storage *storage,
		   const struct sluice_turns_job *job, struct turns_shares *out);

/* The share of its fullest station that a burst takes under a verdict; 0 where that is too
 * little for others to be held for it, and for trials to measure it. */
double turns_taken (const struct sluice_turns_storage *storage,
		    const struct sluice_turns_job *job, const struct sluice_turn *turn);

#endif
