/*
 * The options that sbatch, srun and salloc get from Sluice.
 *
 * Slurm itself carries them to job_submit, as entries of spank_job_env:
 *
 *   _SLURM_SPANK_OPTION_sluice_io_turns=no
 *
 * and to every step of the job. A wrong value is the user's own mistake: the
 * command says so and ends, as for Slurm's own options. On the remote side the
 * entries may be forged, so nothing there fails on one, or trusts one further
 * than its user.
 */
#ifndef SLUICE_OPTIONS_H
#define SLUICE_OPTIONS_H

#include <slurm/spank.h>
#include <stdint.h>

/* Only from slurm_spank_init. */
void options_register (spank_t spank, int argc, char **argv);

/* Whether --no-sluice was given. Only from local_user_init, init_post_opt of slurmstepd and
 * user_init. */
int options_no_sluice (spank_t spank);

/* Whether --io-place was given. Only from init_post_opt of slurmstepd and user_init. */
int options_io_place (spank_t spank);

enum options_turns { OPTIONS_TURNS_NOT_SAID, OPTIONS_TURNS_YES, OPTIONS_TURNS_NO };
/* What --io-turns says. Only from init_post_opt of slurmstepd and user_init. */
enum options_turns options_io_turns (spank_t spank);

enum options_stage { OPTIONS_STAGE_NO, OPTIONS_STAGE_YES, OPTIONS_STAGE_KEEP };
/* What --io-stage says. Only from init_post_opt of slurmstepd and user_init. */
enum options_stage options_io_stage (spank_t spank);

/* The value of --io-dir as it was given, for io_dir_parse, or NULL. Only from
 * local_user_init and user_init. */
const char *options_io_dir (spank_t spank);

#endif
