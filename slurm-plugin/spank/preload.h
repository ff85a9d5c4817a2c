/*
 * Jobs with --io-turns get libsluice_turns.so preloaded into their script and tasks, where
 * plugstack.conf names it and the node has it. Never root's jobs, nor those with
 * --no-sluice.
 *
 * It stands in LD_PRELOAD in front of what the user has there: a profiler behind it does
 * not take waiting for writing.
 */
#ifndef SLUICE_PRELOAD_H
#define SLUICE_PRELOAD_H

#include <slurm/spank.h>

/* Whether the job asked for it and may have it. From init_post_opt or user_init. */
int preload_is_wanted (spank_t spank);

/* From user_init. */
void preload_turns (spank_t spank, int argc, char **argv);

#endif
