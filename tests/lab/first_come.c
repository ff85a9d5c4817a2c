/*
 * Turns in the order in which bursts began, to compare with: linked into a coordinator of
 * the lab by `--wrap`, in front of the core. All else is the core's: whose burst is too
 * short, what fits, budgets.
 */
#include <math.h>
#include <stdlib.h>

#include "turns.h"

static const double ahead = 1e6; /* more than all else makes of an index */

double __real_sluice_turns_decide (const struct sluice_turns_settings *settings,
				   const struct sluice_turns_storage *storage,
				   const struct sluice_turns_job *jobs, uint32_t n,
				   double clock, uint32_t *scratch,
				   struct sluice_turn *out);
double __wrap_sluice_turns_decide (const struct sluice_turns_settings *settings,
				   const struct sluice_turns_storage *storage,
				   const struct sluice_turns_job *jobs, uint32_t n,
				   double clock, uint32_t *scratch,
				   struct sluice_turn *out);

static double
count_later (const struct sluice_turns_job *jobs, uint32_t n, uint32_t of)
{
	uint32_t later = 0;
	for (uint32_t i = 0; i < n; i++)
		later += jobs[i].began > jobs[of].began;
	return later;
}

double
__wrap_sluice_turns_decide (const struct sluice_turns_settings *settings,
			    const struct sluice_turns_storage *storage,
			    const struct sluice_turns_job *jobs, uint32_t n, double clock,
			    uint32_t *scratch, struct sluice_turn *out)
{
	struct sluice_turns_job *by_begin = calloc (n ? n : 1, sizeof *by_begin);
	double again;

	if (!by_begin)
		abort ();
	for (uint32_t i = 0; i < n; i++) {
		by_begin[i] = jobs[i];
		by_begin[i].nodes = pow (ahead, count_later (jobs, n, i));
	}
	again = __real_sluice_turns_decide (settings, storage, by_begin, n, clock, scratch,
					    out);
	free (by_begin);
	return again;
}
