#include "histogram.h"

/* The first bucket ends at 80 ns, the last one starts at 3.7 ms. */
enum { FIRST_OCTAVE = 6, STEPS = 4, STEP_BITS = 2 };

static unsigned int
bucket_of (uint64_t ns)
{
	if (ns >> FIRST_OCTAVE == 0)
		return 0;
	unsigned int octave = 63 - (unsigned int)__builtin_clzll (ns);
	unsigned int step = (unsigned int)(ns >> (octave - STEP_BITS)) % STEPS;
	unsigned int i = (octave - FIRST_OCTAVE) * STEPS + step;
	return i < HISTOGRAM_BUCKETS ? i : HISTOGRAM_BUCKETS - 1;
}

uint64_t
histogram_upper (unsigned int i)
{
	uint64_t step = STEPS + i % STEPS + 1;
	return step << (i / STEPS + FIRST_OCTAVE - STEP_BITS);
}

void
histogram_add (struct histogram *histogram, uint64_t ns)
{
	atomic_fetch_add_explicit (&histogram->count[bucket_of (ns)], 1,
				   memory_order_relaxed);
	uint64_t max = atomic_load_explicit (&histogram->max, memory_order_relaxed);
	while (ns > max && !atomic_compare_exchange_weak (&histogram->max, &max, ns))
		;
}
