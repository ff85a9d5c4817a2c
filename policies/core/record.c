#include "record.h"

#include "situation.h"

void
sluice_record_decide (struct sluice_workspace *workspace,
		      const struct sluice_situation *situation,
		      const struct sluice_config *config, struct sluice_record *record)
{
	const struct sluice_snapshot *snapshot = situation ? situation->snapshot : NULL;

	record->version = SLUICE_RECORD_VERSION;
	record->size = sizeof *record;
	record->mode = config->mode;
	if (situation)
		record->bundle_checksum = sluice_bundle_checksum (situation->bundle);
	if (snapshot) {
		record->snapshot_checksum = sluice_snapshot_checksum (snapshot);
		record->snapshot_sequence = sluice_snapshot_state (snapshot)->sequence;
	}
	sluice_submission_complete (&record->submission, snapshot);
	sluice_decide (workspace, situation, config, &record->submission, record->now,
		       &record->decision);
}
