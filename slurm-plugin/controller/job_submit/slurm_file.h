/*
 * What slurm.conf says of licences, for the moment between a change of the file
 * and `scontrol reconfigure`.
 *
 * job_submit asks the controller whether it has a token, but Slurm looks at the
 * licences again behind job_submit, under another lock: a reconfiguration in
 * between that takes the token away has the submission refused, and no plugin
 * is told of it. The file changes before that, so no token is given any more
 * that the file no longer defines, however many the controller still has.
 */
#ifndef SLUICE_SLURM_FILE_H
#define SLUICE_SLURM_FILE_H

#include <sys/stat.h>

#include "config.h"
#include "vocabulary.h"

/*
 * Has a file changed? By device, inode, size and times, so that a replaced, an
 * overwritten and a truncated file are all noticed without opening it.
 */

struct watch {
	struct stat seen; /* all 0: no file */
};

enum watch_result { WATCH_SAME, WATCH_CHANGED, WATCH_MISSING };

/* Compare with the last poll and remember this one. WATCH_MISSING is said each
 * time that there is no file. */
enum watch_result watch_poll (struct watch *watch, const char *path);

/* The next poll finds the file changed. */
void watch_forget (struct watch *watch);

/* What the file does not tell: it cannot be read, or licences stand in a file
 * that it includes. */
#define SLURM_FILE_SILENT UINT32_MAX

struct slurm_file {
	char path[SLUICE_PATH_SIZE];
	struct watch watch;
	int wake_fd; /* readable when files next to it change; -1: never */
	char *text;  /* NULL: silent */
	size_t size;
};

void slurm_file_init (struct slurm_file *file, const char *path);
void slurm_file_destroy (struct slurm_file *file);

/* Read it if it has changed; 1 if so. */
int slurm_file_poll (struct slurm_file *file);

/* How many of each token of a policy it defines, by class and lane. */
void slurm_file_totals (const struct slurm_file *file, const struct sluice_policy *policy,
			uint32_t out[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES]);

/* How many of a licence the text of a slurm.conf defines. */
uint32_t slurm_file_total (const char *text, size_t size, const char *license);

#endif
