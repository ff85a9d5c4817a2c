/*
 * What the stations can do, from the speeds of bursts. All shares here are of what a
 * station is taken to do at the moment; a station's scale moves by what is measured.
 */
#include <math.h>
#include <string.h>

#include "turns_stations.h"

static const double rounding = 1e-9; /* of a share */
static const double week_seconds = 604800.0;
static const double min_planned = 0.95; /* of a station, for it to be tried to do more */
static const double min_scale = 0.2, max_scale = 5.0;

/* What bursts make of the stations. */
struct observed {
	struct turns_shares wanted;  /* if no other burst slowed them */
	struct turns_shares planned; /* by the last verdicts */
	struct turns_shares done;
	int waits[MOST_STATIONS];      /* whether a burst there is held, or slowed down */
	int slows[MOST_STATIONS];      /* whether one goes slower than it was to */
	int hides[MOST_STATIONS];      /* whether the speed of one there is not known */
	double fullest[MOST_STATIONS]; /* wanted of one target by those that name theirs */
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

/* Bursts on single targets do not show what all targets of the lane can do together. */
static void
observe_targets (const struct turns_shares *want, struct turns_target_sums *on,
		 struct observed *out)
{
	turns_add_targets (on, want);
	for (uint32_t i = 0; i < TARGET_STATIONS; i++) {
		uint32_t k = LANE_STATIONS * want->lane + i;
		out->hides[k] = 1;
		for
			TURNS_EACH_TARGET (t, want)
		out->fullest[k]
		    = larger (out->fullest[k], on->of[want->first_target + t][i]);
	}
}

static void
observe (const struct sluice_turns_storage *storage, const struct sluice_turns_job *jobs,
	 uint32_t n, struct turns_target_sums *on, struct observed *out)
{
	struct turns_shares want;
	*out = (struct observed){ .count = turns_station_count (storage) };
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
		if (want.targets)
			observe_targets (&want, on, out);
	}
}

/* What slows a job is the station of its own that most was planned for. */
static void
attribute (const struct turns_shares *want, struct observed *observed)
{
	double most = 0.0;
	for (uint32_t k = 0; k < observed->count; k++)
		if (want->of[k] > 0.0)
			most = larger (most, observed->planned.of[k]);
	for (uint32_t k = 0; k < observed->count; k++)
		observed->slows[k] |= want->of[k] > 0.0
				      && observed->planned.of[k] >= most * (1.0 - rounding);
}

static void
find_slowed (const struct sluice_turns_settings *settings,
	     const struct sluice_turns_storage *storage,
	     const struct sluice_turns_job *jobs, uint32_t n, struct observed *observed)
{
	struct turns_shares want;
	for (uint32_t i = 0; i < n; i++) {
		turns_want (storage, &jobs[i], &want);
		double planned = smaller (want.speed, turns_sane (jobs[i].allowed));
		/* What slows one on single targets is one of these. */
		if (!want.targets && jobs[i].speed >= 0.0
		    && jobs[i].speed < planned * (1.0 - settings->tolerance))
			attribute (&want, observed);
	}
}

/* Judge one station. Returns the clock at which to do so again. */
static double
judge (const struct sluice_turns_settings *settings, const struct observed *observed,
       uint32_t k, double clock, struct sluice_turns_station *station)
{
	if (observed->hides[k])
		return INFINITY;
	if (observed->done.of[k] > 1.0 + settings->tolerance) {
		double scale = station->scale * observed->done.of[k];
		station->scale = smaller (max_scale, scale);
		return INFINITY;
	}
	/* Bursts that may not be held overfill it: that does not show its size. */
	if (observed->planned.of[k] > 1.0 + rounding)
		return INFINITY;
	if (observed->slows[k]) {
		double scale = station->scale * smaller (1.0, observed->done.of[k]);
		station->scale = larger (min_scale, scale);
		station->slowed = clock;
		return INFINITY;
	}
	if (!observed->waits[k] || observed->planned.of[k] < min_planned)
		return INFINITY;
	if (clock < station->slowed + settings->patience)
		return station->slowed + settings->patience;
	double scale = station->scale * (1.0 + settings->probe);
	station->scale = smaller (max_scale, scale);
	return clock + larger (settings->latency, turns_settling);
}

/* Account for the time since the last call. */
static void
pass_time (struct sluice_turns_memory *memory, double clock)
{
	double passed = 1.0 - exp (-larger (0.0, clock - memory->clock) / week_seconds);
	for (uint32_t k = 0; k < SLUICE_TURNS_STATIONS; k++) {
		struct sluice_turns_station *station = &memory->stations[k];
		station->full += passed * (station->is_full - station->full);
	}
	memory->clock = clock;
}

/* Whether there is a station at which all speeds are known. */
static int
can_judge (const struct observed *observed)
{
	int can = 0;
	for (uint32_t k = 0; k < observed->count; k++)
		can |= observed->wanted.of[k] > 0.0 && !observed->hides[k];
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
	struct turns_target_sums on;
	struct observed observed;

	pass_time (memory, clock);
	apply (storage, memory, 0.0, out);
	if (turns_know_targets (jobs, n))
		memset (&on, 0, sizeof on);
	observe (out, jobs, n, &on, &observed);
	for (uint32_t k = 0; k < observed.count; k++)
		memory->stations[k].is_full
		    = observed.wanted.of[k] + observed.fullest[k] > 1.0 + rounding;
	if (clock < settled) {
		again = n ? settled : INFINITY;
	} else if (can_judge (&observed)) {
		find_slowed (settings, out, jobs, n, &observed);
		for (uint32_t k = 0; k < observed.count; k++)
			again = smaller (again, judge (settings, &observed, k, clock,
						       &memory->stations[k]));
		memory->learned = clock;
	}
	apply (storage, memory, settings->rare, out);
	return again;
}
