#include "reader.h"

enum {
	LANES = 8,   /* sums side by side */
	BLOCK = 128, /* values summed so; more are halved first */
};

static double
sum_block (const double *values, int64_t count)
{
	double lane[LANES];
	int64_t i = LANES;

	for (int k = 0; k < LANES; k++)
		lane[k] = values[k];
	for (; i + LANES <= count; i += LANES)
		for (int k = 0; k < LANES; k++)
			lane[k] += values[i + k];
	double sum = ((lane[0] + lane[1]) + (lane[2] + lane[3]))
		     + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
	for (; i < count; i++)
		sum += values[i];
	return sum;
}

static double
sum_of (const double *values, int64_t count)
{
	if (count > BLOCK) {
		int64_t half = count / 2 - count / 2 % LANES;
		return sum_of (values, half) + sum_of (values + half, count - half);
	}
	if (count >= LANES)
		return sum_block (values, count);
	double sum = 0.0;
	for (int64_t i = 0; i < count; i++)
		sum += values[i];
	return sum;
}

void
sluice_sums (const double *values, const int64_t *bounds, int64_t parts, double *sums)
{
	for (int64_t i = 0; i < parts; i++)
		sums[i] = sum_of (values + bounds[i], bounds[i + 1] - bounds[i]);
}
