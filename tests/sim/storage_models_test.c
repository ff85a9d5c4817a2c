/*
 * storage_models_test: both storage model through their whole lives, for sanitizers and
 * valgrind. What they answer is checked in tests/sim/test_mean_field.py and
 * test_discrete_event.py; here only that no step reads or writes what it should not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "discrete_event.h"
#include "mean_field.h"

static void
require (int is_true, const char *what)
{
	if (is_true)
		return;
	fprintf (stderr, "%s\n", what);
	exit (1);
}

static void
fill (struct sluice_profile *profile, uint32_t i)
{
	sluice_profile_init (profile);
	profile->chunk_bytes = 65536.0 * (1 + i % 3 * 100);
	profile->bytes_per_flush = i % 2 ? profile->chunk_bytes : 1e12;
	profile->creates_per_mib = i % 4 ? 0.0 : 16.0;
	profile->nprocs = 16.0;
	profile->io_share = 0.1 * (i % 8);
	profile->period_seconds = 100.0;
	profile->async_io = i % 5 ? 0.0 : 1.0;
	profile->shared_share = i % 3 ? 1.0 : 0.0;
}

/* Hundreds of jobs at once, on every mix of lanes; some are stopped. */
static void
test_mean_field (uint32_t sharing, uint32_t allocator)
{
	struct sluice_mean_field_config config;
	sluice_mean_field_config_init (&config);
	config.sharing = sharing;
	config.turns.is_on = sharing != SLUICE_SHARING_JOBS;
	config.burst_spread = 0.3;
	config.allocator = allocator;
	config.foreign_creates = 1.0;
	config.lane_count = 3;
	config.lanes[1] = config.lanes[2] = config.lanes[0];
	sluice_mean_field_config_perturb (&config, 1, 0.2);
	struct sluice_error error;
	struct sluice_mean_field *mean_field = sluice_mean_field_new (&config, &error);
	require (mean_field != NULL, "no storage model");

	struct sluice_mean_field_end end;
	uint32_t started = 30, ended = 0;
	for (uint32_t i = 0; i < started; i++) {
		struct sluice_profile profile;
		struct sluice_mean_field_load load;
		fill (&profile, i);
		while (sluice_mean_field_run (mean_field, 20.0 * i, &end))
			ended++;
		sluice_mean_field_load_of (&profile, 4.0, 3000.0, 3, &config, &load);
		load.placed = i % 7 == 0;
		int64_t slot = sluice_mean_field_start (
		    mean_field, 20.0 * i, &load, i % 8,
		    (struct sluice_block){ 0, i % 5 ? 0 : 8 }, i);
		require (slot >= 0, "no memory for a job");
		require (sluice_mean_field_rate (mean_field, (uint32_t)slot) >= 0.0,
			 "no rate");
		if (i % 10 == 9) {
			sluice_mean_field_stop (mean_field, 20.0 * i + 1.0, (uint32_t)slot,
						&end);
			ended++;
		}
	}
	while (sluice_mean_field_run (mean_field, 1e12, &end))
		ended++;
	require (ended == started, "a job never ended");
	sluice_mean_field_destroy (mean_field);
	sluice_mean_field_destroy (NULL);
}

static void
test_requests (double seek, uint32_t dispatch)
{
	struct sluice_storage storage;
	sluice_storage_init (&storage);
	storage.targets = 6.0;
	storage.servers = 2.0;
	storage.seek_seconds = seek;
	storage.commit_seconds = 1e-3;
	storage.create_seconds = 1e-4;
	storage.cache_bytes = seek > 0.0 ? 0.0 : 1e7;
	storage.flow_limit = 5.0;
	storage.server_bandwidth = 2e10;
	storage.flow_seconds = 1e-5;
	storage.drain_window = dispatch == SLUICE_DISPATCH_TURNS ? 2.0 : 0.0;
	storage.buffer_bytes = 4e6;
	storage.ordered = dispatch == SLUICE_DISPATCH_TURNS;
	storage.turns.is_on = 1;
	storage.turns.settings.latency = 0.01;
	storage.shares = !(seek > 0.0) && dispatch == SLUICE_DISPATCH_REROUTE;
	storage.burst_spread = 0.3;

	struct sluice_program programs[3];
	for (uint32_t i = 0; i < 3; i++) {
		sluice_program_init (&programs[i]);
		programs[i].processes = 20.0;
		programs[i].nodes = 5.0;
		programs[i].operations = 5.0;
		programs[i].bursts = 2.0;
		programs[i].sync = i;
		programs[i].creates = i;
		programs[i].interleaved = i & 1U;
		programs[i].stripe_bytes = 262144.0;
		programs[i].stripe_targets = i ? 4.0 : 1.0;
		programs[i].divides = i != 0;
	}
	programs[1].yields = dispatch; /* as many words as ways to yield */
	programs[0].dispatch = dispatch;
	programs[0].throttle = 0.5;
	struct sluice_program_outcome outcomes[3];
	struct sluice_error error;
	int64_t events = sluice_discrete_event_run (&storage, programs, 3, 0.0, NULL, NULL,
						    outcomes, &error);
	require (events > 0, "no event");
	for (uint32_t i = 0; i < 3; i++)
		require (outcomes[i].bytes > 0.0, "nothing written");
	require (sluice_discrete_event_run (&storage, programs, 3, 0.5, NULL, NULL,
					    outcomes, &error)
		     < events,
		 "did not stop early");
}

/* Programs that are told when to begin: one that was stopped in its burst, with writes
 * under way, may begin anew. */
static void
test_told_when_to_begin (uint32_t sync)
{
	struct sluice_storage storage;
	sluice_storage_init (&storage);
	storage.targets = 4.0;
	storage.lanes = 2.0;
	storage.target_bandwidth = 1e8;
	storage.commit_seconds = 1e-3;
	storage.turns.is_on = 1;
	struct sluice_program programs[2];
	for (uint32_t i = 0; i < 2; i++) {
		sluice_program_init (&programs[i]);
		programs[i].processes = 8.0;
		programs[i].operations = 100.0;
		programs[i].burst_seconds = 10.0;
		programs[i].compute = 5.0;
		programs[i].in_step = 1;
		programs[i].sync = sync;
	}
	struct sluice_program_outcome outcomes[2];
	struct sluice_error error;
	struct sluice_discrete_event *simulation
	    = sluice_discrete_event_new (&storage, programs, 2, outcomes, &error);
	require (simulation != NULL, "no simulation");
	double time;
	uint32_t ended;
	for (double begin = 0.0; begin < 20.0; begin += 9.0) {
		sluice_discrete_event_start (simulation, begin, 0, 1U);
		require (
		    !sluice_discrete_event_next (simulation, begin + 8.0, &time, &ended),
		    "ended too early");
		sluice_discrete_event_stop (simulation, begin + 8.0, 0);
	}
	sluice_discrete_event_start (simulation, 26.0, 0, 0);
	sluice_discrete_event_start (simulation, 26.0, 1, 2U);
	require (sluice_discrete_event_next (simulation, 1e9, &time, &ended) == 1
		     && sluice_discrete_event_next (simulation, 1e9, &time, &ended) == 1,
		 "did not end");
	require (time > 40.5 && time < 80.0, "takes as long as it should not");
	require (outcomes[0].io_alone > 9.5 && outcomes[0].io_alone < 10.5,
		 "wrote in its last run what it should not");
	sluice_discrete_event_stop (simulation, time, 1);
	sluice_discrete_event_destroy (simulation);
}

int
main (void)
{
	for (uint32_t sync = SLUICE_SYNC_BEHIND; sync <= SLUICE_SYNC_FLUSH; sync++)
		test_told_when_to_begin (sync);
	for (uint32_t sharing = 0; sharing <= SLUICE_SHARING_NODES; sharing++)
		for (uint32_t i = 0; i <= SLUICE_ALLOCATOR_ROUND_ROBIN; i++)
			test_mean_field (sharing, i);
	for (uint32_t dispatch = 0; dispatch <= SLUICE_DISPATCH_REROUTE; dispatch++) {
		test_requests (0.0, dispatch);
		test_requests (0.004, dispatch);
	}
	puts ("ok");
	return 0;
}
