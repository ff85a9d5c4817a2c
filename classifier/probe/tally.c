#include "tally.h"

#include <math.h>
#include <stddef.h>
#include <sys/mman.h>

#include "fail.h"

struct tally *
tally_create (void)
{
	struct tally *tally = mmap (NULL, sizeof *tally, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (tally == MAP_FAILED)
		fail ("tally", "map");
	return tally;
}

void
tally_begin (struct tally *tally, double start, double length)
{
	tally->length = length;
	tally->start = floor (start / length) * length;
}

double
tally_end (const struct tally *tally)
{
	return tally->start + MAX_SLICES * tally->length;
}

static unsigned
slice_at (const struct tally *tally, double instant)
{
	double number = (instant - tally->start) / tally->length;

	if (!(number > 0))
		return 0;
	return number < MAX_SLICES ? (unsigned)number : MAX_SLICES - 1;
}

/* Bucket i holds latencies from 2^(i / OCTAVE_STEPS) us on. */
static unsigned
bucket_of (double seconds)
{
	double number = log2 (fmax (seconds * 1e6, 1.0)) * OCTAVE_STEPS;

	return number < BUCKETS ? (unsigned)number : BUCKETS - 1;
}

static double
bucket_middle (unsigned bucket)
{
	return exp2 ((bucket + 0.5) / OCTAVE_STEPS) / 1e6;
}

/* By what has been done up to the end of each slice, so that no byte is lost to
 * rounding. */
static void
spread (struct tally *tally, double from, double to, uint64_t bytes)
{
	unsigned last = slice_at (tally, to);
	unsigned used = atomic_load (&tally->used);
	uint64_t done = 0;

	while (last >= used
	       && !atomic_compare_exchange_weak (&tally->used, &used, last + 1))
		;
	for (unsigned i = slice_at (tally, from); i <= last; i++) {
		double end = tally->start + (i + 1) * tally->length;
		uint64_t until
		    = i == last ? bytes
				: (uint64_t)((double)bytes * (end - from) / (to - from));

		atomic_fetch_add (&tally->slices[i].bytes, until - done);
		done = until;
	}
}

void
tally_add (struct tally *tally, double from, double to, uint64_t bytes)
{
	struct slice *slice = &tally->slices[slice_at (tally, to)];
	uint64_t took = (uint64_t)(fmax (to - from, 0.0) * 1e9);
	uint64_t longest = atomic_load (&slice->longest);

	spread (tally, from, to, bytes);
	atomic_fetch_add (&slice->operations, 1);
	atomic_fetch_add (&slice->latencies[bucket_of (to - from)], 1);
	while (took > longest
	       && !atomic_compare_exchange_weak (&slice->longest, &longest, took))
		;
}

void
tally_total (const struct tally *tally, struct slice *total)
{
	unsigned used = tally->used;

	*total = (struct slice){ 0 };
	for (unsigned i = 0; i < used; i++) {
		const struct slice *slice = &tally->slices[i];

		total->bytes += slice->bytes;
		total->operations += slice->operations;
		if (slice->longest > total->longest)
			total->longest = slice->longest;
		for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
			total->latencies[bucket] += slice->latencies[bucket];
	}
}

double
tally_reached (const struct tally *tally, double bytes, double start)
{
	unsigned used = tally->used;
	double done = 0.0;

	for (unsigned i = 0; i < used; i++) {
		double here = (double)tally->slices[i].bytes;

		if (here > 0.0 && done + here >= bytes) {
			double end = tally->start + (i + 1) * tally->length;
			double begin = fmax (start, end - tally->length);
			return begin + (bytes - done) / here * (end - begin);
		}
		done += here;
	}
	return tally->start + used * tally->length;
}

static double
quantile (const struct slice *slice, double share)
{
	double longest = (double)slice->longest / 1e9;
	double wanted = share * (double)slice->operations;
	uint64_t seen = 0;

	for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
		seen += slice->latencies[bucket];
		if ((double)seen >= wanted)
			return fmin (bucket_middle (bucket), longest);
	}
	return longest;
}

struct quantiles
slice_quantiles (const struct slice *slice)
{
	return (struct quantiles){
		.p50 = quantile (slice, 0.50),
		.p90 = quantile (slice, 0.90),
		.p99 = quantile (slice, 0.99),
		.longest = (double)slice->longest / 1e9,
	};
}
