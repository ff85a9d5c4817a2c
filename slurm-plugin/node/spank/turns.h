/*
 * The page of a step that takes turns: slurmstepd asks the node's agent for it
 * (registration.h) and hands it on to the step's tasks.
 *
 * A step takes turns that has --io-turns, or whose job the decision at submission lets take
 * them. Never root's, nor one with --no-sluice, nor one that the site exempts. One that
 * only is placed (place.h) has a page, too, so that its bursts are seen, and is not held.
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

/* Whether the decision lets a job take turns, as 4711:yes or 4711:no: for its steps on all
 * nodes, most of which do not ask slurmctld. */
#define TURNS_JOB_VARIABLE "SLUICE_TURNS_JOB"
enum { TURNS_JOB_SIZE = 16 };
/* The value of that variable, of a job of which something is said. */
void turns_describe (const struct holding *job, char out[TURNS_JOB_SIZE]);

/* What slurmctld's plugin decided of a batch script's job, by its environment. */
enum holding_turns turns_decided (spank_t spank);

/* From init_post_opt: only root is answered. `known`: what slurmctld said of the job;
 * NULL: it has not been asked. */
void turns_register (spank_t spank, int argc, char **argv, const struct holding *known);
/* After that: whether there is one. */
int turns_have_page (void);
/* The words' descriptor where this step follows them (place.h); -1: it does not. */
int turns_followed (void);
/* From user_init: names the step's page in its environment, or removes another's; in that
 * of a script also that its job takes turns (TURNS_JOB_VARIABLE). */
void turns_announce (spank_t spank, const struct holding *known);
/* From task_init, in the process that is about to be the task. */
void turns_hand_over (void);

#endif
