/* Loads that are counted as one press as they do one by one. */
#include <math.h>

#include "check.h"
#include "interference.h"

enum { MOST = 8 };

static double
draw (double least, double most)
{
	static uint64_t state = 1;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return least + (most - least) * (double)(state >> 40) / (double)(1 << 24);
}

static struct sluice_pressure
always_on (void)
{
	struct sluice_pressure p = {
		.weight = exp (draw (-3, 3)),
		.streaming = draw (0, 1),
		.demand = draw (0.5, 1),
		.metadata = draw (0, 0.05),
		.io_share = 1.0,
		.confined = 1.0,
	};
	return p;
}

static void
test_a_merged_load_costs_a_victim_what_its_parts_cost (void)
{
	const struct sluice_interference model = { .capacity = 0.9, .pooling = 0.3 };
	for (int round = 0; round < 200; round++) {
		struct sluice_pressure victim = always_on (), merged;
		struct sluice_pressure parts[MOST];
		const struct sluice_pressure *others[MOST], *one = &merged;
		uint32_t n = 1 + (uint32_t)draw (0, MOST);
		for (uint32_t i = 0; i < n; i++) {
			parts[i] = always_on ();
			others[i] = &parts[i];
		}
		sluice_pressure_merge (others, n, 0.0, &merged);
		double apart = sluice_rate_share (&victim, others, n, &model, 0.0);
		double together = sluice_rate_share (&victim, &one, 1, &model, 0.0);
		CHECK (fabs (apart - together) <= 1e-9 * apart);
	}
}

int
main (void)
{
	test_a_merged_load_costs_a_victim_what_its_parts_cost ();
	return check_report ();
}
