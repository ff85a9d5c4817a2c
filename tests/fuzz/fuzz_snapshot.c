/*
 * Any bytes as a snapshot: refused with a reason, or everything in it can be
 * asked for. Once as they are, once with a checksum that fits.
 */
#include "container_input.h"
#include "snapshot.h"

static void
ask (const struct sluice_snapshot *snapshot)
{
	struct sluice_error err;
	uint32_t n = sluice_snapshot_corunner_count (snapshot);

	if (!sluice_snapshot_state (snapshot) || sluice_snapshot_corunner (snapshot, n))
		abort ();
	for (uint32_t i = 0; i < n; i++)
		if (sluice_profile_check (&sluice_snapshot_corunner (snapshot, i)->profile,
					  &err)
		    < 0)
			abort ();
	sluice_snapshot_partition (snapshot, "");
	sluice_snapshot_partition (snapshot, "main");
	sluice_snapshot_user (snapshot, 0);
	sluice_snapshot_user (snapshot, 1000);
	sluice_snapshot_holder (snapshot, 0);
	sluice_snapshot_holder (snapshot, 101);
	sluice_snapshot_preempts (snapshot, "high");
}

static void
parse (const void *bytes, size_t size)
{
	struct sluice_snapshot *snapshot;
	struct sluice_error err = { "" };

	if (sluice_snapshot_parse (bytes, size, &snapshot, &err) == 0) {
		ask (snapshot);
		sluice_snapshot_destroy (snapshot);
	} else if (!err.text[0]) {
		abort (); /* refused without a reason */
	}
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	return parse_twice (data, size, parse);
}
