/*
 * allocation_test BUNDLE SNAPSHOT: decisions, scope, predictions and gates take
 * no memory and give none back. malloc and its kin are counted here, in front of
 * the C library's own, so a sanitizer cannot be used together with this one.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "decide.h"
#include "gates.h"

void *__libc_malloc (size_t size);
void *__libc_calloc (size_t count, size_t size);
void *__libc_realloc (void *memory, size_t size);
void *__libc_memalign (size_t alignment, size_t size);
void __libc_free (void *memory);

static unsigned long calls;

void *
malloc (size_t size)
{
	calls++;
	return __libc_malloc (size);
}

void *
calloc (size_t count, size_t size)
{
	calls++;
	return __libc_calloc (count, size);
}

void *
realloc (void *memory, size_t size)
{
	calls++;
	return __libc_realloc (memory, size);
}

void *
memalign (size_t alignment, size_t size)
{
	calls++;
	return __libc_memalign (alignment, size);
}

void *
aligned_alloc (size_t alignment, size_t size)
{
	return memalign (alignment, size);
}

void
free (void *memory)
{
	calls++;
	__libc_free (memory);
}

/* Known and unknown; in and out of scope. */
static const struct sluice_submission jobs[] = {
	{ .uid = 1000, .name = "run_1", .nodes = 4, .time_limit = 60 },
	{ .uid = 1, .name = "never_seen", .account = "physics", .nodes = 100 },
	{ .uid = 2, .script_signature = 5, .partition = "batch,other" },
	{ .uid = 3, .flags = SLUICE_SUBMIT_PTY, .launcher = SLUICE_LAUNCHER_SRUN },
};
enum { JOBS = sizeof jobs / sizeof jobs[0] };

static void
test_decisions_take_no_memory (const struct sluice_situation *situation)
{
	static struct sluice_config config;
	static struct sluice_decision decision;
	struct sluice_workspace *workspace = sluice_workspace_create ();
	unsigned int priced = 0;

	CHECK (workspace != NULL);
	sluice_config_init (&config);
	config.mode_rule_count = 1;
	config.mode_rules[0] = (struct sluice_rule){ .by = SLUICE_MODE_BY_ACCOUNT };
	sluice_copy_text (config.mode_rules[0].accounts,
			  sizeof config.mode_rules[0].accounts, "a,b");
	unsigned long before = calls;
	for (int round = 0; round < 100; round++)
		for (int i = 0; i < JOBS; i++) {
			sluice_decide (workspace, situation, &config, &jobs[i], 1800000000,
				       &decision);
			priced += decision.alternative_count > 2;
		}
	CHECK (calls == before);
	CHECK (priced > 0); /* the long way was taken too */
	sluice_workspace_destroy (workspace);
}

static void
test_predictions_take_no_memory (const struct sluice_bundle *bundle)
{
	struct sluice_prediction prediction;
	unsigned int known = 0;
	unsigned long before = calls;
	for (int i = 0; i < JOBS; i++) {
		sluice_predict (bundle, &jobs[i], 0, &prediction);
		known += prediction.evidence != SLUICE_EVIDENCE_NONE;
	}
	CHECK (calls == before);
	CHECK (known > 0);
}

static void
test_gates_take_no_memory (const struct sluice_bundle *bundle)
{
	static struct sluice_member members[30];
	struct sluice_gates gates;
	for (unsigned int i = 0; i < 30; i++) {
		members[i].klass = 1 + i % 3;
		members[i].pressure.weight = 1.0 + i;
		members[i].pressure.demand = 0.1;
		members[i].pressure.io_share = 0.3;
		members[i].pressure.confined = 1.0;
	}
	unsigned long before = calls;
	sluice_gates_keep (members, 4, 26, NULL, 0, sluice_bundle_interference (bundle),
			   sluice_bundle_policy (bundle), 26, &gates);
	CHECK (calls == before);
	CHECK (gates.tokens[members[4].klass] > 0);
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
	CHECK (calls > 0); /* loading does, so the counter works */
	struct sluice_situation *situation = sluice_situation_create (bundle, snapshot);
	test_decisions_take_no_memory (situation);
	test_predictions_take_no_memory (bundle);
	test_gates_take_no_memory (bundle);
	sluice_situation_destroy (situation);
	sluice_snapshot_destroy (snapshot);
	sluice_bundle_destroy (bundle);
	return check_report ();
}
