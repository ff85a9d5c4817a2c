/*
 * What was done in each slice of wall-clock time, by all processes together.
 *
 * Slices start at multiples of their length, so those of different programs and
 * nodes cover the same time. An operation's bytes are spread evenly over the time
 * that it took; the operation itself and its latency belong to the slice in which
 * it ended.
 */
#ifndef SLUICE_PROBE_TALLY_H
#define SLUICE_PROBE_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

enum {
	OCTAVES = 32,	  /* of latency, from 1 us to more than an hour */
	OCTAVE_STEPS = 8, /* so a quantile is known to one part in 16 */
	BUCKETS = OCTAVES * OCTAVE_STEPS,
	MAX_SLICES = 65536,
};

struct slice {
	_Atomic uint64_t bytes;
	_Atomic uint64_t operations;
	_Atomic uint64_t longest; /* ns */
	_Atomic uint32_t latencies[BUCKETS];
};

/* Shared by the processes; pages that are not touched cost nothing. */
struct tally {
	double start;	       /* of slice 0, seconds since the epoch */
	double length;	       /* of a slice, s */
	_Atomic unsigned used; /* one past the last slice in which something was done */
	struct slice slices[MAX_SLICES];
};

struct quantiles {
	double p50, p90, p99, longest; /* s */
};

/* In memory that is shared with processes forked later. */
struct tally *tally_create (void);

void tally_begin (struct tally *tally, double start, double length);

/* End of the last slice: nothing may be done after it. */
double tally_end (const struct tally *tally);

/* One operation between two instants. By any process at any time. */
void tally_add (struct tally *tally, double from, double to, uint64_t bytes);

/* Add all slices up into one. */
void tally_total (const struct tally *tally, struct slice *total);

/* The instant at which so many bytes had been moved, spread evenly over the part
 * of a slice behind start: a short run may lie within a single one. */
double tally_reached (const struct tally *tally, double bytes, double start);

/* Needs at least one operation. */
struct quantiles slice_quantiles (const struct slice *slice);

#endif
