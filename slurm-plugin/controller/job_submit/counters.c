#include "counters.h"

#include <stddef.h>

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

/* Every field is one, so that all of them are read and added up alike. */
static _Atomic uint64_t *
fields (struct counters *counters)
{
	return (_Atomic uint64_t *)counters;
}

#define INDEX_OF(member) (offsetof (struct counters, member) / sizeof (uint64_t))

static int
is_maximum (unsigned int i)
{
	return i == INDEX_OF (known.max) || i == INDEX_OF (all.max);
}

void
counters_read (struct counters *counters, uint64_t out[COUNTERS_COUNT])
{
	for (unsigned int i = 0; i < COUNTERS_COUNT; i++)
		out[i] = atomic_load_explicit (&fields (counters)[i], memory_order_relaxed);
}

void
counters_add (struct counters *counters, const uint64_t earlier[COUNTERS_COUNT])
{
	for (unsigned int i = 0; i < COUNTERS_COUNT; i++) {
		_Atomic uint64_t *field = &fields (counters)[i];
		uint64_t now = atomic_load_explicit (field, memory_order_relaxed);
		if (!is_maximum (i))
			atomic_fetch_add_explicit (field, earlier[i], memory_order_relaxed);
		while (is_maximum (i) && earlier[i] > now
		       && !atomic_compare_exchange_weak (field, &now, earlier[i]))
			;
	}
}
