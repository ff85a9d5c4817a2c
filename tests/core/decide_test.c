/*
 * decide_test BUNDLE SNAPSHOT: every byte of a decision is written, whatever was
 * there before, and depends on nothing but the inputs; also without a bundle or
 * a snapshot. A sanitizer or valgrind sees what is read uninitialised.
 */
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "decide.h"
#include "gates.h"

static const struct sluice_submission jobs[] = {
	{ .uid = 1000, .name = "run_1", .nodes = 4, .time_limit = 60 },
	{ .uid = 1000, .name = "run_1", .nodes = 100 },
	{ .uid = 1, .name = "never_seen", .account = "physics", .nodes = 0 },
	{ .uid = 2, .script_signature = 5, .partition = "batch,other" },
	{ .uid = 3, .flags = SLUICE_SUBMIT_PTY, .launcher = SLUICE_LAUNCHER_SRUN },
	{ .uid = UINT32_MAX, .flags = ~0u, .launcher = 99, .nodes = UINT32_MAX },
};
static const int64_t times[]
    = { INT64_MIN, 1799999990, 1800000000, 1800000050, 1800000061, 0, INT64_MAX };
enum { JOBS = sizeof jobs / sizeof jobs[0], TIMES = sizeof times / sizeof times[0] };

static void
test_decisions_are_a_function_of_their_inputs (const struct sluice_situation *situation,
					       const struct sluice_situation *again)
{
	static struct sluice_config config;
	static struct sluice_decision first, second;
	struct sluice_workspace *used = sluice_workspace_create ();

	CHECK (used != NULL);
	sluice_config_init (&config);
	for (int i = 0; i < JOBS; i++)
		for (int t = 0; t < TIMES; t++) {
			memset (&first, 0x00, sizeof first);
			memset (&second, 0xff, sizeof second);
			struct sluice_workspace *fresh = sluice_workspace_create ();
			CHECK (fresh != NULL);
			sluice_decide (used, situation, &config, &jobs[i], times[t],
				       &first);
			sluice_decide (fresh, again, &config, &jobs[i], times[t], &second);
			sluice_workspace_destroy (fresh);
			CHECK (memcmp (&first, &second, sizeof first) == 0);
			CHECK (first.action < SLUICE_ACTION_COUNT);
			CHECK (first.reason > SLUICE_REASON_NONE);
			CHECK (first.reason < SLUICE_REASON_COUNT);
			CHECK (first.chosen == 0 || first.chosen < first.alternative_count);
		}
	sluice_workspace_destroy (used);
}

static void
test_gates_write_all_of_their_answer (const struct sluice_bundle *bundle)
{
	struct sluice_gates first, second;
	memset (&first, 0x00, sizeof first);
	memset (&second, 0xff, sizeof second);
	sluice_gates_keep (NULL, 0, 0, NULL, 0, sluice_bundle_interference (bundle),
			   sluice_bundle_policy (bundle), 10, &first);
	sluice_gates_keep (NULL, 0, 0, NULL, 0, sluice_bundle_interference (bundle),
			   sluice_bundle_policy (bundle), 10, &second);
	CHECK (memcmp (&first, &second, sizeof first) == 0);
}

int
main (int argc, char **argv)
{
	struct sluice_bundle *bundle;
	struct sluice_snapshot *snapshot;
	struct sluice_error err;

	if (argc != 3)
		return 2;
	if (sluice_bundle_load (argv[1], getuid (), &bundle, &err) < 0
	    || sluice_snapshot_load (argv[2], getuid (), &snapshot, &err) < 0) {
		fprintf (stderr, "%s\n", err.text);
		return 2;
	}
	struct sluice_situation *whole = sluice_situation_create (bundle, snapshot);
	struct sluice_situation *again = sluice_situation_create (bundle, snapshot);
	struct sluice_situation *blind = sluice_situation_create (bundle, NULL);
	test_decisions_are_a_function_of_their_inputs (whole, again);
	test_decisions_are_a_function_of_their_inputs (blind, blind);
	test_decisions_are_a_function_of_their_inputs (NULL, NULL);
	test_gates_write_all_of_their_answer (bundle);
	sluice_situation_destroy (whole);
	sluice_situation_destroy (again);
	sluice_situation_destroy (blind);
	sluice_snapshot_destroy (snapshot);
	sluice_bundle_destroy (bundle);
	return check_report ();
}
