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

struct turns_shares {
	double of[MOST_STATIONS];
	double speed; /* of full speed, at which that is taken: less than 1 where a station
		       * can do less than a job wants */
};

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
