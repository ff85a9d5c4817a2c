#include "bursts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BURST_LENGTH = 1, BURST_NOISE = 2, BURST_PLACE = 3 }; /* streams of random numbers */

void
sluice_turns_config_init (struct sluice_turns_config *config)
{
	*config = (struct sluice_turns_config){ .demand_error = 1.0 };
	sluice_turns_settings_init (&config->settings);
}

int
sluice_turns_config_check (const struct sluice_turns_config *config,
			   struct sluice_error *err)
{
	return config->is_on ? sluice_turns_settings_check (&config->settings, err) : 0;
}

/* Uniform in (0, 1) from a counter: splitmix64 through the core's hash. */
static double
uniform (uint64_t seed, uint64_t counter)
{
	uint64_t bits = sluice_hash_bytes (&counter, sizeof counter, seed);
	return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

double
sluice_normal (uint64_t seed, uint64_t number)
{
	double radius = sqrt (-2.0 * log (uniform (seed, 2 * number)));
	return radius * cos (6.283185307179586 * uniform (seed, 2 * number + 1));
}

static uint64_t
stream_of (uint64_t seed, uint64_t key, int stream)
{
	uint64_t bytes[3] = { seed, key, (uint64_t)stream };
	return sluice_hash_bytes (bytes, sizeof bytes, 0);
}

static double
factor_of (uint64_t seed, uint64_t key, uint32_t number, int stream, double sd)
{
	return exp (sd * sluice_normal (stream_of (seed, key, stream), number));
}

double
burst_uniform (uint64_t seed, uint64_t key, uint32_t number)
{
	return uniform (stream_of (seed, key, BURST_PLACE), number);
}

double
burst_factor (uint64_t seed, uint64_t key, uint32_t number, double sd)
{
	return sd > 0.0 ? factor_of (seed, key, number, BURST_LENGTH, sd) : 1.0;
}

double
burst_usual (uint64_t seed, uint64_t key, uint32_t bursts, double sd, double mean)
{
	double sum = 0.0;
	for (uint32_t number = bursts; number && sd > 0.0; number--)
		sum += factor_of (seed, key, number, BURST_LENGTH, sd);
	return sum > 0.0 ? mean * bursts / sum : mean;
}

void
burst_control_init (struct burst_control *control, const struct sluice_turns_config *config,
		    uint64_t seed)
{
	*control = (struct burst_control){ .config = *config, .seed = seed };
	control->at = INFINITY;
	sluice_turns_memory_init (&control->memory);
	sluice_turns_check_init (&control->check, 0.0);
}

int
burst_control_grow (struct burst_control *control, uint32_t room)
{
	struct sluice_turns_job *jobs = realloc (control->jobs, room * sizeof *jobs);
	if (jobs)
		control->jobs = jobs;
	struct sluice_turn *turns = realloc (control->turns, room * sizeof *turns);
	if (turns)
		control->turns = turns;
	uint32_t *slots = realloc (control->slots, room * sizeof *slots);
	if (slots)
		control->slots = slots;
	uint32_t *order = realloc (control->order, room * sizeof *order);
	if (order)
		control->order = order;
	return jobs && turns && slots && order ? 0 : -1;
}

void
burst_control_free (struct burst_control *control)
{
	free (control->jobs);
	free (control->turns);
	free (control->slots);
	free (control->order);
}

static void
set_demand (const struct burst_control *control, struct burst *burst,
	    const double demand[SLUICE_STATION_COUNT])
{
	for (int i = 0; i < SLUICE_STATION_COUNT; i++)
		burst->demand[i] = demand[i] * control->config.demand_error;
}

void
burst_expect (const struct burst_control *control, struct burst *burst, double most_held,
	      double expected, const double demand[SLUICE_STATION_COUNT])
{
	burst->most_held = most_held;
	burst->expected = expected;
	set_demand (control, burst, demand);
}

void
burst_learn (const struct burst_control *control, struct burst *burst, uint64_t key,
	     uint32_t number, double seconds, const double demand[SLUICE_STATION_COUNT])
{
	double noise = control->config.noise;
	if (!control->config.is_on)
		return;
	burst->expected
	    = seconds * factor_of (control->seed, key, number, BURST_NOISE, noise);
	set_demand (control, burst, demand);
}

void
burst_begin (struct burst *burst, double now)
{
	burst->allowed = 1.0;
	burst->charged = now;
	burst->stretch = burst->went = 0.0;
	burst->saving = NAN;
}

/* s since it was last charged for being held, or slowed down. */
static double
uncharged (const struct burst *burst, double now)
{
	return (1.0 - burst->allowed) * (now - burst->charged);
}

static void
charge (const struct burst_control *control, struct burst *burst, double now)
{
	double seconds = uncharged (burst, now);
	sluice_turns_pass (sluice_turns_respite (&control->config.settings), burst->allowed,
			   now - burst->charged, &burst->stretch, &burst->went);
	burst->held += seconds;
	burst->held_in_all += seconds;
	burst->charged = now;
}

void
burst_end (const struct burst_control *control, struct burst *burst, double now)
{
	charge (control, burst, now);
	burst->held = 0.0;
	burst->saving_in_all += isnan (burst->saving) ? 0.0 : burst->saving;
	burst->saving = NAN;
}

void
burst_control_ask (struct burst_control *control, double now)
{
	if (control->config.is_on)
		control->at = fmin (control->at, now + control->config.settings.latency);
}

void
burst_control_begin (struct burst_control *control)
{
	control->count = 0;
	control->is_blind = 0;
	control->at = INFINITY;
}

void
burst_control_report (struct burst_control *control, double now, uint32_t slot,
		      const struct burst *burst, uint32_t coverage,
		      const struct sluice_turns_job *job)
{
	double known = job->began + control->config.settings.latency;
	if (coverage == SLUICE_UNSEEN)
		return;
	if (known > now) {
		control->at = fmin (control->at, known);
		control->is_blind = 1;
		return;
	}
	struct sluice_turns_job *out = &control->jobs[control->count];
	control->slots[control->count++] = slot;
	*out = *job;
	out->expected = burst->expected;
	out->moved = out->done;
	out->held = burst->held + uncharged (burst, now);
	out->stretch = burst->stretch;
	out->went = burst->went;
	sluice_turns_pass (sluice_turns_respite (&control->config.settings), burst->allowed,
			   now - burst->charged, &out->stretch, &out->went);
	out->allowed = burst->allowed;
	out->flags = coverage == SLUICE_COVERED ? 0 : SLUICE_TURNS_EXEMPT;
	sluice_turns_leave (out,
			    burst->most_held - burst->held_in_all - uncharged (burst, now));
	memcpy (out->demand, burst->demand, sizeof out->demand);
}

/* A burst that has begun and is not known yet may be what slows the others. */
static void
forget_speeds (struct burst_control *control)
{
	for (uint32_t k = 0; k < control->count; k++)
		control->jobs[k].speed = -1.0;
}

void
burst_control_decide (struct burst_control *control, double now)
{
	const struct sluice_turns_settings *settings = &control->config.settings;
	struct sluice_turns_storage storage;
	if (control->is_blind)
		forget_speeds (control);
	double learn = sluice_turns_learn (settings, &control->storage, control->jobs,
					   control->count, now, &control->memory, &storage);
	struct sluice_turns_check before;
	if (control->watch)
		before = control->check;
	double again
	    = sluice_turns_decide (settings, &storage, control->jobs, control->count, now,
				   control->order, control->turns);
	again = fmin (again,
		      sluice_turns_check (settings, &storage, control->jobs, control->count,
					  now, &control->check, control->turns));
	struct sluice_turns_decided decided
	    = { settings, &storage, control->jobs,  &before, control->turns,
		now,	  again,    control->count, 0 };
	if (control->watch)
		control->watch (control->watcher, &decided);
	again = fmin (again, learn);
	control->at = fmax (fmin (control->at, again), nextafter (now, INFINITY));
}

int
burst_follow (const struct burst_control *control, struct burst *burst,
	      const struct sluice_turn *turn, double now)
{
	int changes = turn->share < burst->allowed || turn->share > burst->allowed;
	if (turn->share < 1.0 && isnan (burst->saving)) /* of the first hold, as deployed */
		burst->saving = turn->saving;
	charge (control, burst, now);
	burst->allowed = turn->share;
	return changes;
}
