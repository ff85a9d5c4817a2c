/*
 * A decision record: everything needed to explain a decision and to make it
 * again. Replaying the inputs with the same bundle and snapshot gives the same
 * bytes in `decision`, and with the totals that it holds the same `grant` (but
 * for NO_MEMORY, an accident).
 */
#ifndef SLUICE_RECORD_H
#define SLUICE_RECORD_H

#include "tokens.h"

enum { SLUICE_RECORD_VERSION = 7 };

struct sluice_record {
	uint32_t version;	    /* SLUICE_RECORD_VERSION */
	uint32_t size;		    /* sizeof (struct sluice_record) */
	uint64_t boot;		    /* drawn when the plugin was loaded */
	uint64_t number;	    /* rising from 1 in a boot */
	int64_t now;		    /* UTC seconds: the time that was decided at */
	uint64_t bundle_checksum;   /* 0: none */
	uint64_t snapshot_checksum; /* 0: none */
	uint64_t snapshot_sequence;
	uint64_t config_checksum; /* CRC-64 of the text of sluice.conf */
	uint32_t mode;		  /* enum sluice_mode: how far Sluice goes with the job */
	uint32_t
	    turns; /* enum sluice_turns_scope; OFF also where turns are not decided on */
	/* struct sluice_job_mode: what gave the mode */
	uint32_t mode_rule;
	uint32_t mode_by;
	uint32_t mode_at_most; /* before its lanes were decided */
	uint32_t reserved;
	char cluster[SLUICE_NAME_SIZE];
	struct sluice_submission submission;
	struct sluice_decision decision;
	struct sluice_place place; /* follows from the decision, by its own inputs */
	/* follows from mode, turns, submission, decision, totals */
	struct sluice_grant grant;
};

/* Complete the record's submission by the snapshot, draw its lot unless it has one, and
 * decide on it at record->now. The caller has filled in boot, number, now, config_checksum,
 * cluster and submission; the grant is left to it. situation NULL: there is no valid
 * bundle. */
void sluice_record_decide (struct sluice_workspace *workspace,
			   const struct sluice_situation *situation,
			   const struct sluice_config *config,
			   struct sluice_record *record);

/* Fill in how far Sluice goes with the job of a record that has been decided: its mode and
 * its scope of turns. Where some jobs are enforced, the others take no turns. */
void sluice_record_set_mode (const struct sluice_config *config,
			     const struct sluice_policy *policy,
			     struct sluice_record *record);

#endif
