/*
 * The policies with engine and mean-field storage model, for sanitizers and valgrind.
 * usage: policies_test BUNDLE UID NAME...: a bundle, its owner and the job names that it
 * knows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "contended.h"
#include "engine.h"
#include "job_request.h"
#include "policies.h"

enum { JOBS = 200, NODES = 32, MOST_NAMES = 8 };

static struct sluice_replay_job jobs[JOBS];
static struct sluice_mean_field_load loads[JOBS];
static uint32_t application[JOBS];
static struct sluice_submission submissions[MOST_NAMES];
static const double max_delay = 900.0;

static uint32_t
draw (uint32_t below)
{
	static uint32_t seed = 11;
	seed = seed * 1103515245u + 12345u;
	return seed / 65536 % below;
}

static void
make_jobs (const struct sluice_mean_field_config *config, uint32_t names)
{
	double submit = 0;
	for (uint32_t i = 0; i < JOBS; i++) {
		struct sluice_profile profile;
		uint32_t kind = application[i] = draw (names);
		submit += draw (120);
		double runtime = 60 + draw (3000);
		jobs[i] = (struct sluice_replay_job){
			.submit = submit,
			.runtime = runtime,
			.limit = runtime * (1 + draw (3)),
			.slots = 1 + (int32_t)draw (NODES / 2),
			.partition = draw (10) == 0,
		};
		sluice_profile_init (&profile);
		profile.pattern = kind % 2 ? SLUICE_PATTERN_AW : SLUICE_PATTERN_WS;
		profile.share[profile.pattern] = 1.0f;
		profile.io_share = 0.5;
		sluice_mean_field_load_of (&profile, jobs[i].slots, runtime, 8, config,
					   &loads[i]);
	}
}

static struct sluice_workload
make_workload (void)
{
	struct sluice_workload w = {
		.jobs = jobs,
		.job_count = JOBS,
		.machine
		= { .group_count = 1,
		    .partition_count = 2,
		    .group_slots = { NODES },
		    .partitions = { { .groups = 1 }, { .groups = 1, .tier = 1 } } },
	};
	sluice_scheduler_init (&w.scheduler);
	return w;
}

static void
run (const struct sluice_workload *w, const struct sluice_mean_field_config *config,
     const struct sluice_replay_policy *policy, const struct sluice_policy_result *results)
{
	struct sluice_error err;
	struct sluice_contended *contended
	    = sluice_contended_new (config, loads, NULL, JOBS, &err);
	CHECK (contended != NULL);
	struct sluice_engine *e
	    = sluice_engine_new (w, sluice_contended_storage (contended), policy, &err);
	CHECK (e != NULL);
	while (sluice_engine_run (e, 10, &err) == 1)
		;
	CHECK (sluice_engine_ended (e) == JOBS);
	uint32_t delay = 0;
	for (uint32_t i = 0; i < JOBS; i++) {
		CHECK (results[i].held >= 0 && results[i].held <= max_delay);
		delay += results[i].held > 0;
	}
	CHECK (delay > 0);
	sluice_engine_destroy (e);
	sluice_contended_destroy (contended);
}

/* Every job passes one gate, which holds three of them. */
static void
run_gates (const struct sluice_workload *w, const struct sluice_mean_field_config *config)
{
	static const double room[] = { 3.0 };
	static uint32_t first[JOBS + 1];
	static struct sluice_gate_need needs[JOBS];
	for (uint32_t i = 0; i < JOBS; i++) {
		first[i + 1] = i + 1;
		needs[i].amount = i % 5 ? 1.0 : 9.0; /* some want more than there is */
	}
	struct sluice_gate_setup setup = {
		.room = room,
		.gate_count = 1,
		.job_count = JOBS,
		.first = first,
		.needs = needs,
		.max_delay = max_delay,
	};
	struct sluice_gates_policy *policy = sluice_gates_policy_new (&setup);
	CHECK (policy != NULL);
	run (w, config, sluice_gates_policy_table (policy),
	     sluice_gates_policy_results (policy));
	sluice_gates_policy_destroy (policy);
}

static void
run_core (const struct sluice_workload *w, const struct sluice_mean_field_config *config,
	  const struct sluice_bundle *bundle)
{
	static const char text[] = "Mode=enforce\n";
	struct sluice_config settings;
	struct sluice_error err;
	CHECK (sluice_config_parse ("sluice.conf", text, strlen (text), &settings, &err)
	       == 0);
	struct sluice_core_setup setup = {
		.bundle = bundle,
		.config = &settings,
		.jobs = jobs,
		.submissions = submissions,
		.application = application,
		.job_count = JOBS,
		.epoch = 1800000000,
	};
	struct sluice_core_policy *policy = sluice_core_policy_new (&setup);
	CHECK (policy != NULL);
	run (w, config, sluice_core_policy_table (policy),
	     sluice_core_policy_results (policy));
	sluice_core_policy_destroy (policy);
}

int
main (int argc, char **argv)
{
	struct sluice_mean_field_config config;
	struct sluice_bundle *bundle;
	struct sluice_error err;
	uint32_t names = (uint32_t)(argc - 3);
	if (argc < 4 || names > MOST_NAMES
	    || sluice_bundle_load (argv[1], (uint32_t)atol (argv[2]), &bundle, &err) < 0)
		return 2;
	for (uint32_t i = 0; i < names; i++) {
		struct sluice_request request
		    = { .name = argv[i + 3], .script = "#!/bin/sh\n" };
		sluice_submission_of (&request, &submissions[i]);
	}
	sluice_mean_field_config_init (&config);
	config.lanes[0] = (struct sluice_mean_field_lane){ .targets = 4, .servers = 1 };
	make_jobs (&config, names);
	struct sluice_workload w = make_workload ();
	for (w.scheduler.preemption = 0; w.scheduler.preemption <= 2;
	     w.scheduler.preemption++) {
		run_gates (&w, &config);
		run_core (&w, &config, bundle);
	}
	sluice_gates_policy_destroy (NULL);
	sluice_core_policy_destroy (NULL);
	sluice_bundle_destroy (bundle);
	return check_report ();
}
