/*
 * What the stations can do, from the speeds of bursts. All shares here are of what a
 * station is taken to do at the moment; a station's scale moves by what is seen.
 */
#include <math.h>

#include "turns_stations.h"

static const double slack = 1e-9;    /* of a share: rounding */
static const double week = 604800.0; /* s */
static const double nearly = 0.95;   /* of a station: no more is planned to be left idle */
static const double smallest_scale = 0.2, largest_scale = 5.0;

/* What bursts make of the stations. */
struct sight {
	struct turns_shares wanted;  /* if nobody were in their way */
	struct turns_shares planned; /* by the last verdicts */
	struct turns_shares done;
	int waits[MOST_STATIONS]; /* whether a burst there is held, or slowed down */
	int slows[MOST_STATIONS]; /* whether one goes slower than it was to */
	int hides[MOST_STATIONS]; /* whether the speed of one there is not known */
	uint32_t count;
};

void
sluice_turns_memory_init (struct sluice_turns_memory *memory)
{
	memory->clock = memory->learned = -INFINITY;
	for (uint32_t k = 0; k < SLUICE_TURNS_STATIONS; k++)
		memory->stations[k] = (struct sluice_turns_station){
			.scale = 1.0,
			.slowed = -INFINITY,
		};
}

static double *
capacity_of (struct sluice_turns_storage *storage, uint32_t station)
{
	if (station + 1 == turns_station_count (storage))
		return &storage->metadata;
	struct sluice_turns_lane *lane = &storage->lanes[station / LANE_STATIONS];
	double *const capacities[] = { &lane->bytes, &lane->operations, &lane->links };
	return capacities[station % LANE_STATIONS];
}

static void
see (const struct sluice_turns_storage *storage, const struct sluice_turns_job *jobs,
     uint32_t n, struct sight *out)
{
	struct turns_shares want;
	*out = (struct sight){ .count = turns_station_count (storage) };
	for (uint32_t i = 0; i < n; i++) {
		turns_want (storage, &jobs[i], &want);
		double allowed = smaller (1.0, turns_sane (jobs[i].allowed) / want.speed);
		double speed = smaller (1.0, turns_sane (jobs[i].speed)) / want.speed;
		for (uint32_t k = 0; k < out->count; k++) {
			out->wanted.of[k] += want.of[k];
			out->planned.of[k] += want.of[k] * allowed;
			out->done.of[k] += want.of[k] * speed;
			out->waits[k] |= want.of[k] > 0.0 && allowed < 1.0;
			out->hides[k] |= want.of[k] > 0.0 && !(jobs[i].speed >= 0.0);
		}
	}
}

/* What slows a job is the station of its own that most was planned for. */
static void
blame (const struct turns_shares *want, struct sight *sight)
{
	double most = 0.0;
	for (uint32_t k = 0; k < sight->count; k++)
		if (want->of[k] > 0.0)
			most = larger (most, sight->planned.of[k]);
	for (uint32_t k = 0; k < sight->count; k++)
		sight->slows[k]
		    |= want->of[k] > 0.0 && sight->planned.of[k] >= most * (1.0 - slack);
}

static void
find_slowed (const struct sluice_turns_settings *settings,
	     const struct sluice_turns_storage *storage,
	     const struct sluice_turns_job *jobs, uint32_t n, struct sight *sight)
{
	struct turns_shares want;
	for (uint32_t i = 0; i < n; i++) {
		turns_want (storage, &jobs[i], &want);
		double planned = smaller (want.speed, turns_sane (jobs[i].allowed));
		if (jobs[i].speed >= 0.0
		    && jobs[i].speed < planned * (1.0 - settings->tolerance))
			blame (&want, sight);
	}
}

/* Judge one station. Returns the clock at which to do so again. */
static double
judge (const struct sluice_turns_settings *settings, const struct sight *sight, uint32_t k,
       double clock, struct sluice_turns_station *station)
{
	if (sight->hides[k])
		return INFINITY;
	if (sight->done.of[k] > 1.0 + settings->tolerance) {
		double scale = station->scale * sight->done.of[k];
		station->scale = smaller (largest_scale, scale);
		return INFINITY;
	}
	/* Bursts that nobody could hold overfill it: that says nothing of its size. */
	if (sight->planned.of[k] > 1.0 + slack)
		return INFINITY;
	if (sight->slows[k]) {
		double scale = station->scale * smaller (1.0, sight->done.of[k]);
		station->scale = larger (smallest_scale, scale);
		station->slowed = clock;
		return INFINITY;
	}
	if (!sight->waits[k] || sight->planned.of[k] < nearly)
		return INFINITY;
	if (clock < station->slowed + settings->patience)
		return station->slowed + settings->patience;
	double scale = station->scale * (1.0 + settings->probe);
	station->scale = smaller (largest_scale, scale);
	return clock + larger (settings->latency, turns_settling);
}

/* Let the time pass since the last call. */
static void
pass_time (struct sluice_turns_memory *memory, double clock)
{
	double passed = 1.0 - exp (-larger (0.0, clock - memory->clock) / week);
	for (uint32_t k = 0; k < SLUICE_TURNS_STATIONS; k++) {
		struct sluice_turns_station *station = &memory->stations[k];
		station->full += passed * (station->is_full - station->full);
	}
	memory->clock = clock;
}

/* Whether there is a station at which all speeds are known. */
static int
can_judge (const struct sight *sight)
{
	int can = 0;
	for (uint32_t k = 0; k < sight->count; k++)
		can |= sight->wanted.of[k] > 0.0 && !sight->hides[k];
	return can;
}

static void
apply (const struct sluice_turns_storage *storage, const struct sluice_turns_memory *memory,
       double rare, struct sluice_turns_storage *out)
{
	*out = *storage;
	for (uint32_t k = 0; k < turns_station_count (storage); k++) {
		const struct sluice_turns_station *station = &memory->stations[k];
		*capacity_of (out, k) *= station->full >= rare ? station->scale : 0.0;
	}
}

double
sluice_turns_learn (const struct sluice_turns_settings *settings,
		    const struct sluice_turns_storage *storage,
		    const struct sluice_turns_job *jobs, uint32_t n, double clock,
		    struct sluice_turns_memory *memory, struct sluice_turns_storage *out)
{
	double again = INFINITY,
	       settled = memory->learned + larger (settings->latency, turns_settling);
	struct sight sight;

	pass_time (memory, clock);
	apply (storage, memory, 0.0, out);
	see (out, jobs, n, &sight);
	for (uint32_t k = 0; k < sight.count; k++)
		memory->stations[k].is_full = sight.wanted.of[k] > 1.0 + slack;
	if (clock < settled) {
		again = n ? settled : INFINITY;
	} else if (can_judge (&sight)) {
		find_slowed (settings, out, jobs, n, &sight);
		for (uint32_t k = 0; k < sight.count; k++)
			again = smaller (again, judge (settings, &sight, k, clock,
						       &memory->stations[k]));
		memory->learned = clock;
	}
	apply (storage, memory, settings->rare, out);
	return again;
}
