/*
 * Slurm as a plugin sees it: the public headers, the few symbols that every
 * Slurm program exports without declaring them, and what differs between
 * Slurm 20.11 and 26.05.
 *
 * plugin_version has to equal slurmctld's to the last digit, so a build against
 * other headers than the running controller's is refused by Slurm itself.
 */
#ifndef SLUICE_SLURM_API_H
#define SLUICE_SLURM_API_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#ifndef SLURM_VERSION_NUMBER /* in some releases slurm.h has it */
#include <slurm/slurm_version.h>
#endif
#include <slurm/spank.h> /* declares slurm_info and slurm_error */

#define SLURM_AT_LEAST(major, minor)                                                       \
	(SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM (major, minor, 0))

/* src/common/xmalloc.h, the same from 20.11 to 26.05. Strings in a job
 * description are allocated and freed by these. */
extern void *slurm_xcalloc (size_t count, size_t size, bool clear, bool may_fail,
			    const char *file, int line, const char *function);
extern void slurm_xfree (void **memory);

/* The controller's configuration (src/common/read_config.h): job_submit runs
 * under its read lock. Weak: where it is missing, its address is NULL. */
extern slurm_conf_t slurm_conf __attribute__ ((weak));

/* src/slurmctld/licenses.h and slurmctld.h, the same from 20.11 to 26.05, weak
 * as well: how many of a licence there are, 0 for an unknown one; whether a user
 * is root, SlurmUser or an operator. */
extern uint32_t get_total_license_cnt (char *name) __attribute__ ((weak));
extern bool validate_operator (uid_t uid) __attribute__ ((weak));

#if SLURM_AT_LEAST(25, 11)
#define JOB_ID(job) ((job)->step_id.job_id)
#else
#define JOB_ID(job) ((job)->job_id)
#endif

#if SLURM_AT_LEAST(21, 8)
#define SUBMIT_LINE(job) ((job)->submit_line)
#else
#define SUBMIT_LINE(job) NULL
#endif

#endif
