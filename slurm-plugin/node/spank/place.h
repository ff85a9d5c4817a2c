/*
 * Placement at create (turns-protocol.md): a process of the user's sets the default layout
 * of the job's directory anew when the coordinator says other targets, so that its next
 * files go where no burst is under way. It runs on one node of the job, where the directory
 * was made, as long as the step's tasks do.
 *
 * Without a word for a minute, or from a coordinator that is gone, the directory gets the
 * layout of its lane again. A command that fails ends the process.
 */
#ifndef SLUICE_SPANK_PLACE_H
#define SLUICE_SPANK_PLACE_H

#include <slurm/spank.h>

#include "grant.h"

/* From init_post_opt: whether the job or the site asks for it. */
int place_is_wanted (spank_t spank, int argc, char **argv);
/* Which flags of enum sluice_turns_flags_of_words say that this step follows, of a job that
 * holds this; NULL: it is not known. */
uint32_t place_flags (spank_t spank, const struct settings *settings,
		      const struct holding *known);
/* From user_init, as the user, when the step's variables are set. */
void place_start (spank_t spank, int argc, char **argv, int words_fd);
/* From task_exit: when all tasks of the step have ended, it does. */
void place_end (void);

#endif
