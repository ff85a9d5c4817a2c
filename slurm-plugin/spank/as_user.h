/*
 * Do a piece of work as the job's user, in a process of its own that is killed
 * when it takes too long: a file system may hang.
 *
 * The process has nothing of its host, srun or a slurmstepd of root's: no other
 * identity, no signal handler, no open file. Above all not its output, which may
 * be the job's.
 */
#ifndef SLUICE_AS_USER_H
#define SLUICE_AS_USER_H

#include <stdint.h>
#include <sys/types.h>

/* What became of it. */
struct outcome {
	unsigned char stage; /* 0: done; the work's own numbers are below 200 */
	unsigned char error; /* errno, 0: it says nothing */
};

enum {
	AS_USER_PREPARE = 200, /* cannot prepare a process */
	AS_USER_IDENTITY,      /* cannot become the user */
	AS_USER_TIMEOUT,       /* it took too long */
};

/*
 * Runs between fork and _exit in a program that has threads: calls nothing that
 * allocates or locks.
 */
typedef struct outcome as_user_work (const void *argument);

/* uid must be the effective user already, with the effective group and the
 * supplementary groups of the job, as SPANK's user hooks have them. */
struct outcome as_user (uid_t uid, as_user_work *work, const void *argument,
			uint32_t timeout_s);

/* Run a command in an open directory, without a shell and with an environment of
 * its own. To be called from the work. 0: it exited with 0 within timeout_s. */
int as_user_execute (int directory, const char *const *words, uint32_t timeout_s);

#endif
