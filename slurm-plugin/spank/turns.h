/*
 * The page of a step with --io-turns: slurmstepd asks the node's agent for it
 * (registration.h) and hands it on to the step's tasks.
 *
 * The connection stays open until slurmstepd ends, however it ends: so long the job is
 * registered. Page and words are close-on-exec in slurmstepd itself, which starts other
 * programs too, and inherited by tasks alone.
 *
 * Where there is no agent, or it hangs or refuses, tasks get no page and write as ever.
 */
#ifndef SLUICE_SPANK_TURNS_H
#define SLUICE_SPANK_TURNS_H

#include <slurm/spank.h>

#include "grant.h"

/* From init_post_opt: only root is answered. `known`: what slurmctld said of the job;
 * NULL: it has not been asked. */
void turns_register (spank_t spank, int argc, char **argv, const struct holding *known);
/* From user_init: names the step's page in its environment, or removes another's. */
void turns_announce (spank_t spank);
/* From task_init, in the process that is about to be the task. */
void turns_hand_over (void);

#endif
