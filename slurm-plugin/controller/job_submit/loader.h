/*
 * Keeps configuration, model bundle and snapshot up to date, away from
 * job_submit: a thread polls the files, reads what has changed into private
 * memory, makes a view of it and swaps the pointer under a lock that is held
 * for that assignment only. Nothing is mapped: a file may be truncated under us.
 *
 * What happens when a file is
 *                  missing           refused (damaged, foreign owner, ...)
 *   configuration  mode off          mode off: we do not guess what was meant
 *   bundle         unloaded          the one in memory stays
 *   snapshot       unloaded          the one in memory stays, until too old
 *
 * Bundle and snapshot are replaced by renaming, so a damaged one is an accident
 * and the last good one is still true. A refused file is tried again at each
 * look, a snapshot from the future only once it is another one; the reason is
 * logged once and kept for `sluice doctor`.
 * While the off file exists the mode is off, within a second.
 */
#ifndef SLUICE_LOADER_H
#define SLUICE_LOADER_H

#include <pthread.h>

#include "record.h"
#include "ring.h"
#include "slurm_file.h"

/* What job_submit decides with. Never changed once it is published. */
struct view {
	uint64_t number;	     /* from 1, rising */
	struct sluice_config config; /* its mode is what holds now */
	uint64_t config_checksum;
	const struct sluice_bundle *bundle; /* NULL: none */
	const struct sluice_snapshot *snapshot;
	struct sluice_situation *situation; /* NULL without a bundle */
	/* Tokens that users write are taken off: in every mode but off, and also while the
	 * off file exists, for they would count once it is gone. */
	int reserves_tokens;
	int is_off;	/* for all jobs */
	int has_blocks; /* some lane has Place=blocks */
	/* The tokens that count: those of view_policy, then those that the configuration
	 * adds. */
	struct sluice_policy reserved;
	/* slurm_file_totals: a token of which there are fewer is not given */
	uint32_t promised[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES];
};

/* The policy that decisions are made with. */
const struct sluice_policy *view_policy (const struct view *view);

/* One file, as `sluice doctor` shows it. */
struct file_status {
	char path[SLUICE_PATH_SIZE];
	int loaded;
	uint64_t checksum;
	int64_t created;	       /* UTC seconds, as the file says; 0: it does not */
	int64_t since;		       /* UTC seconds when it was loaded */
	char error[SLUICE_ERROR_SIZE]; /* why the file on disk is refused */
};

enum file { FILE_CONFIG, FILE_BUNDLE, FILE_SNAPSHOT, FILE_COUNT };

struct loader {
	pthread_t thread;
	int stop_fd; /* readable: the end */
	struct ring *ring;
	_Atomic int has_polled;

	pthread_rwlock_t view_lock;
	struct view *view; /* NULL: nothing loaded yet */

	/* the thread's own */
	uint64_t views; /* made so far */
	struct sluice_config config;
	uint64_t config_checksum;
	struct sluice_bundle *bundle;
	struct sluice_snapshot *snapshot;
	int switched_off; /* the off file exists */
	struct slurm_file slurm_file;
	uint32_t promised[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES];
	struct watch watches[FILE_COUNT];

	struct file_status status[FILE_COUNT]; /* of the loading thread alone */
	struct file_status told[FILE_COUNT];   /* what the view goes by; under its lock */
};

/* Start the thread, which reads everything and ends when stop_fd becomes readable. Waits
 * until it has read once, because users submit as soon as slurmctld is there, but no
 * longer than a second: a file system may hang. -1: no thread. */
int loader_start (struct loader *loader, const char *config_path,
		  const char *slurm_conf_path, struct ring *ring, int stop_fd);
/* Free everything, after the thread has ended. */
void loader_destroy (struct loader *loader);

/* The current view, or NULL; held until released. */
const struct view *loader_acquire (struct loader *loader);
void loader_release (struct loader *loader);

/* FILE_COUNT of them, what became of each file that the view goes by; only while a view is
 * held. */
const struct file_status *loader_status (const struct loader *loader);

#endif
