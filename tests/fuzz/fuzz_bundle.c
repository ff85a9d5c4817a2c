/*
 * Any bytes as a bundle: refused with a reason, or a decision can be made with
 * them. Once as they are, once with a checksum that fits.
 */
#include "container_input.h"
#include "decide.h"

static void
decide_with (const struct sluice_bundle *bundle)
{
	struct sluice_config config;
	struct sluice_submission submission;
	struct sluice_decision decision;
	struct sluice_situation *situation = sluice_situation_create (bundle, NULL);
	struct sluice_workspace *workspace = sluice_workspace_create ();

	if (!situation || !workspace)
		abort ();
	sluice_config_init (&config);
	memset (&submission, 0, sizeof submission);
	submission.nodes = 4;
	submission.tasks = 64;
	submission.launcher = SLUICE_LAUNCHER_SBATCH;
	sluice_copy_text (submission.name, sizeof submission.name, "ior_aw");
	sluice_decide (workspace, situation, &config, &submission, 1800000000, &decision);
	if (decision.action >= SLUICE_ACTION_COUNT
	    || decision.reason >= SLUICE_REASON_COUNT)
		abort ();
	sluice_workspace_destroy (workspace);
	sluice_situation_destroy (situation);
}

static void
parse (const void *bytes, size_t size)
{
	struct sluice_bundle *bundle;
	struct sluice_error err = { "" };

	if (sluice_bundle_parse (bytes, size, &bundle, &err) == 0) {
		decide_with (bundle);
		sluice_bundle_destroy (bundle);
	} else if (!err.text[0]) {
		abort (); /* refused without a reason */
	}
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	return parse_twice (data, size, parse);
}
