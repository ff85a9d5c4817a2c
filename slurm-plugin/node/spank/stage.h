/*
 * Staging: a script writes into a directory on its node, and sluice-drain brings the files
 * to the directory that the job would have had.
 *
 * Root makes STAGE/JOBID, which is its own, with two directories of the user's: data, where
 * the job writes, and state, with the drainer's journal. All else, the drainer included,
 * runs as the user in every id. job_epilog waits for it, and starts it anew if it was
 * killed. What cannot be drained stays there, and the log says so; whatever fails before,
 * the job runs as if it had not asked.
 */
#ifndef SLUICE_STAGE_H
#define SLUICE_STAGE_H

#include <slurm/spank.h>

#include "grant.h"

/* Where the job's files will be, while SLUICE_DIR is on the node. */
#define STAGED_TO_VARIABLE "SLUICE_STAGED_TO"

/* init_post_opt of a script's step, as root: makes room, where the job asked for it. */
void stage_prepare (spank_t spank, int argc, char **argv, const struct holding *job);
/* user_init of that step: starts the drainer, and puts the node's directory in place of the
 * job's own one. */
void stage_start (spank_t spank, int argc, char **argv, char directory[IO_DIR_SIZE]);
/* job_epilog, as root: ends the drainer, and waits for it. */
void stage_end (spank_t spank, int argc, char **argv);

#endif
