/*
 * turns_test: verdicts on random bursts, as nonsensical as a caller could hand over. A
 * sanitizer sees what is read or written out of place; checked is what holds for any
 * input: each verdict is a complete one, exempt jobs go, the first goes, and equal states
 * give equal bytes. What is learned of a storage is a storage. The check only ever lets
 * bursts go that were held.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "turns_check.h"

enum { MOST = 200, STATES = 3000 };

/* An LCG, so that every machine draws the same. */
static uint64_t seed = 1;

static uint32_t
draw (uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % below);
}

static double
number (void)
{
	static const double edges[]
	    = { 0.0, -0.0, 1.0, -1.0, NAN, HUGE_VAL, -HUGE_VAL, DBL_MAX, DBL_MIN, 1e-300 };
	return draw (8) ? draw (1000) / 100.0
			: edges[draw (sizeof edges / sizeof edges[0])];
}

static void
draw_storage (struct sluice_turns_storage *storage)
{
	memset (storage, 0, sizeof *storage);
	storage->metadata = number ();
	storage->lane_count = 1 + draw (SLUICE_MAX_LANES);
	for (uint32_t i = 0; i < storage->lane_count; i++)
		storage->lanes[i] = (struct sluice_turns_lane){
			.targets = draw (9) ? 1.0 + draw (8) : number (),
			.bytes = number (),
			.operations = number (),
			.links = number (),
		};
}

static void
draw_job (struct sluice_turns_job *job)
{
	memset (job, 0, sizeof *job);
	job->key = draw (50);
	job->nodes = number ();
	for (int i = 0; i < SLUICE_STATION_COUNT; i++)
		job->demand[i] = number ();
	job->expected = number ();
	job->done = number ();
	job->held = number ();
	job->stretch = number ();
	job->went = number ();
	job->most_held = draw (2) ? HUGE_VAL : number ();
	job->began = number ();
	job->allowed = number ();
	job->speed = number ();
	job->moved = number ();
	job->program = draw (3);
	job->lane_mask = draw (4) ? draw (1 << 16) : UINT32_MAX;
	job->flags = draw (4) ? 0 : draw (256);
}

static void
check_turn (const struct sluice_turns_job *job, const struct sluice_turn *turn)
{
	CHECK (isfinite (turn->index) && turn->index > 0.0);
	CHECK (turn->share >= 0.0 && turn->share <= 1.0);
	CHECK (turn->reason < SLUICE_TURN_REASON_COUNT);
	int is_slowed
	    = turn->reason == SLUICE_TURN_BEHIND || turn->reason == SLUICE_TURN_PARTLY;
	CHECK (is_slowed == (turn->share < 1.0));
	CHECK ((turn->share >= 1.0) == isinf (turn->until));
	CHECK (!(job->flags & SLUICE_TURNS_EXEMPT) || turn->share >= 1.0);
}

static void
check_learned (const struct sluice_turns_settings *settings,
	       const struct sluice_turns_storage *storage,
	       const struct sluice_turns_job *jobs, uint32_t n, double clock,
	       struct sluice_turns_storage *out)
{
	struct sluice_turns_memory memory;
	sluice_turns_memory_init (&memory);
	for (int i = 0; i < 3; i++, clock += 100.0)
		CHECK (sluice_turns_learn (settings, storage, jobs, n, clock, &memory, out)
		       > clock);
	for (uint32_t k = 0; k < SLUICE_TURNS_STATIONS; k++) {
		CHECK (memory.stations[k].scale >= 0.2 && memory.stations[k].scale <= 5.0);
		CHECK (memory.stations[k].full >= 0.0 && memory.stations[k].full <= 1.0);
	}
}

/* Trials begin and go on as time passes. */
static void
check_checked (const struct sluice_turns_settings *settings,
	       const struct sluice_turns_storage *storage, struct sluice_turns_job *jobs,
	       uint32_t n, double clock, const struct sluice_turn *before)
{
	static struct sluice_turns_check check;
	static struct sluice_turn out[MOST];
	sluice_turns_check_init (&check, draw (2));
	for (int step = 0; step < 30; step++, clock += draw (8)) {
		memcpy (out, before, n * sizeof *out);
		CHECK (sluice_turns_check (settings, storage, jobs, n, clock, &check, out)
		       >= clock);
		for (uint32_t i = 0; i < n; i++) {
			int is_released = out[i].reason == SLUICE_TURN_TRIAL
					  || out[i].reason == SLUICE_TURN_NO_HELP;
			CHECK (is_released || !memcmp (&out[i], &before[i], sizeof *out));
			CHECK (!is_released || before[i].share < 1.0);
			CHECK (!is_released || out[i].share >= 1.0);
			jobs[i].moved += draw (20) / 10.0;
		}
	}
	for (uint32_t i = 0; i < SLUICE_MAX_LANES; i++)
		CHECK (isfinite (check.lanes[i].harm) && check.lanes[i].trials <= 16.0);
}

static void
check_state (const struct sluice_turns_settings *settings)
{
	static struct sluice_turns_job jobs[MOST];
	static struct sluice_turn first[MOST], second[MOST];
	static uint32_t scratch[MOST];
	struct sluice_turns_storage storage;
	uint32_t n = draw (MOST), going = 0;
	double clock = draw (100000);

	draw_storage (&storage);
	for (uint32_t i = 0; i < n; i++)
		draw_job (&jobs[i]);
	struct sluice_turns_storage learned;
	check_learned (settings, &storage, jobs, n, clock, &learned);
	storage = draw (2) ? learned : storage;
	memset (first, 1, sizeof first);
	memset (second, 2, sizeof second);
	double again
	    = sluice_turns_decide (settings, &storage, jobs, n, clock, scratch, first);
	CHECK (again >= clock);
	sluice_turns_decide (settings, &storage, jobs, n, clock, scratch, second);
	CHECK (!memcmp (first, second, n * sizeof *first));
	for (uint32_t i = 0; i < n; i++) {
		check_turn (&jobs[i], &first[i]);
		going += first[i].share >= 1.0;
	}
	CHECK (!n || going);
	check_checked (settings, &storage, jobs, n, clock, first);
}

int
main (void)
{
	struct sluice_turns_settings settings;
	sluice_turns_settings_init (&settings);
	CHECK (sluice_turns_settings_check (&settings, NULL) == 0);
	for (int i = 0; i < STATES; i++) {
		settings.latency = draw (3);
		check_state (&settings);
	}
	return check_report ();
}
