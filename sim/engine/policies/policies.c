/* What the policies have in common: delaying a job, and for how long. */
#include "policies.h"

#include <math.h>
#include <stdlib.h>

struct sluice_policy_result *
sluice_policy_results_new (uint32_t job_count)
{
	struct sluice_policy_result *results
	    = calloc ((size_t)job_count + 1, sizeof *results);
	for (uint32_t i = 0; results && i < job_count; i++)
		results[i].held_since = -1;
	return results;
}

int
sluice_policy_hold (struct sluice_policy_result *result, double now, double max_delay,
		    struct sluice_choice *choice)
{
	if (result->held_since < 0)
		result->held_since = now;
	choice->hold_until = result->held_since + max_delay;
	return choice->hold_until > now;
}

void
sluice_policy_release (struct sluice_policy_result *result, double now, double max_delay,
		       struct sluice_choice *choice)
{
	choice->hold_until = 0;
	if (result->held_since >= 0)
		result->held = fmin (now - result->held_since, max_delay);
}
