#include "counters.h"

#include <stddef.h>

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
	return i == INDEX_OF (known.max) || i == INDEX_OF (forest.max)
	       || i == INDEX_OF (all.max);
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
