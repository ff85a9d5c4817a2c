/*
 * One function a context and hook, in a file for each context: local.c, remote.c.
 * argc and argv are the plugin's arguments in plugstack.conf.
 */
#ifndef SLUICE_CONTEXTS_H
#define SLUICE_CONTEXTS_H

#include <slurm/spank.h>
#include <stdint.h>

void local_user_init (spank_t spank, int argc, char **argv);
void remote_init_post_opt (spank_t spank, int argc, char **argv);
void remote_user_init (spank_t spank, int argc, char **argv);
void remote_task_init (void);

#endif
