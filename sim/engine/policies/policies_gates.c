/* Gates of fixed size: licences that a site would define by hand. */
#include <math.h>
#include <stdlib.h>

#include "policies.h"

/* What the policies have in common: delaying a job, and for how long. */

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

struct sluice_gates_policy {
	struct sluice_replay_policy table;
	struct sluice_gate_setup setup;
	double *taken;	/* at each gate */
	uint8_t *holds; /* by job: it has what it needs */
	struct sluice_policy_result *results;
};

static double
size_of (const struct sluice_gates_policy *p, const struct sluice_gate_need *need)
{
	return fmin (need->amount, p->setup.room[need->gate]);
}

static int
has_room (const struct sluice_gates_policy *p, uint32_t job)
{
	/* Amounts are added and taken away again: the rounding must shut no job out. */
	static const double rounding = 1e-9;
	for (uint32_t i = p->setup.first[job]; i < p->setup.first[job + 1]; i++) {
		const struct sluice_gate_need *need = &p->setup.needs[i];
		double room = p->setup.room[need->gate];
		if (p->taken[need->gate] + size_of (p, need) > room * (1.0 + rounding))
			return 0;
	}
	return 1;
}

static void
change (struct sluice_gates_policy *p, uint32_t job, double sign)
{
	for (uint32_t i = p->setup.first[job]; i < p->setup.first[job + 1]; i++)
		p->taken[p->setup.needs[i].gate] += sign * size_of (p, &p->setup.needs[i]);
}

static void
starting (void *self, double now, uint32_t job, struct sluice_choice *choice)
{
	struct sluice_gates_policy *p = self;
	struct sluice_policy_result *result = &p->results[job];
	p->holds[job] = (uint8_t)has_room (p, job);
	if (p->holds[job] || !sluice_policy_hold (result, now, p->setup.max_delay, choice))
		sluice_policy_release (result, now, p->setup.max_delay, choice);
}

static void
started (void *self, double now, uint32_t job)
{
	struct sluice_gates_policy *p = self;
	(void)now;
	if (p->holds[job])
		change (p, job, 1.0);
}

static void
ended (void *self, double now, uint32_t job)
{
	struct sluice_gates_policy *p = self;
	(void)now;
	if (p->holds[job])
		change (p, job, -1.0);
	p->holds[job] = 0;
}

struct sluice_gates_policy *
sluice_gates_policy_new (const struct sluice_gate_setup *setup)
{
	struct sluice_gates_policy *p = calloc (1, sizeof *p);
	if (!p)
		return NULL;
	p->setup = *setup;
	p->table = (struct sluice_replay_policy){
		.self = p,
		.starting = starting,
		.started = started,
		.ended = ended,
	};
	p->taken = calloc ((size_t)setup->gate_count + 1, sizeof *p->taken);
	p->holds = calloc ((size_t)setup->job_count + 1, sizeof *p->holds);
	p->results = sluice_policy_results_new (setup->job_count);
	if (p->taken && p->holds && p->results)
		return p;
	sluice_gates_policy_destroy (p);
	return NULL;
}

void
sluice_gates_policy_destroy (struct sluice_gates_policy *p)
{
	if (!p)
		return;
	free (p->taken);
	free (p->holds);
	free (p->results);
	free (p);
}

const struct sluice_replay_policy *
sluice_gates_policy_table (struct sluice_gates_policy *p)
{
	return &p->table;
}

const struct sluice_policy_result *
sluice_gates_policy_results (const struct sluice_gates_policy *p)
{
	return p->results;
}
