/*
 * A histogram of nanoseconds that threads fill at once without a lock: four
 * buckets for each doubling, so that a quantile is right within 25 %.
 */
#ifndef SLUICE_HISTOGRAM_H
#define SLUICE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 64 };

struct histogram {
	_Atomic uint64_t count[HISTOGRAM_BUCKETS];
	_Atomic uint64_t max;
};

void histogram_add (struct histogram *histogram, uint64_t ns);

/* Everything in bucket i is below this; the last bucket has no bound. */
uint64_t histogram_upper (unsigned int i);

#endif
