/*
 * Jobs that have a page (turns.h) get libsluice_turns.so preloaded into their script and
 * tasks; nothing else does.
 *
 * It stands in LD_PRELOAD in front of what the user has there: a profiler behind it does
 * not take waiting for writing.
 */
#ifndef SLUICE_PRELOAD_H
#define SLUICE_PRELOAD_H

#include <slurm/spank.h>

#include "settings.h"

/* Whether the library that plugstack.conf names can be preloaded here; says why not, where
 * it names one. From init_post_opt. */
int preload_is_possible (int argc, char **argv, struct settings *settings);

/* From user_init. */
void preload_turns (spank_t spank, int argc, char **argv);
/* Likewise: takes it out of what a step without a page has from its job's script. */
void preload_no_turns (spank_t spank, int argc, char **argv);

#endif
