/*
 * One function a context and hook, in a file for each context: local.c, remote.c.
 * argc and argv are the plugin's arguments in plugstack.conf.
 */
#ifndef SLUICE_CONTEXTS_H
#define SLUICE_CONTEXTS_H

#include <slurm/spank.h>
#include <stdint.h>

/* What sruns in one salloc make the directory's name of (grant.h). */
#define SEED_VARIABLE "SLUICE_SEED"
/* The job for which srun could make no directory: to its step's slurmstepd, which is root.
 */
#define UNPLACED_VARIABLE "SLUICE_UNPLACED"

void allocator_init_post_opt (void);
void local_user_init (spank_t spank, int argc, char **argv);
void remote_init_post_opt (spank_t spank, int argc, char **argv);
void remote_user_init (spank_t spank, int argc, char **argv);
void remote_task_init (void);
void remote_task_exit (void);
void remote_task_post_fork (spank_t spank, int argc, char **argv);

#endif
