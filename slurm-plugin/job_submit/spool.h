/*
 * Hands what the ring holds over to the next slurmctld: a restart ends this one, and
 * from 23.11 `scontrol reconfigure` does too, without a call of fini and while the new
 * one is starting already.
 *
 * A thread copies ring and counters into a file next to the socket,
 * `<Socket>.spool.<boot>`, within SPOOL_MS, and for the last time in fini. So nothing is
 * lost at a restart or reconfiguration, and at kill -9 what was submitted within the last
 * SPOOL_MS. The file grows with what waits and holds a ring at most.
 *
 * The files of slurmctlds that are gone are adopted: their records go into our ring under
 * their own boot and number, by which the history knows what it has already; counters
 * are added to ours, and what could not be handed over is counted. A slurmctld that lives
 * holds a lock on its file, so it is left alone until it ends.
 *
 * Where the file cannot be written (a full or read-only disk), jobs, ring and socket go on
 * as ever, `stats` tells the reason, and the thread tries again each second.
 */
#ifndef SLUICE_SPOOL_H
#define SLUICE_SPOOL_H

#include "loader.h"
#include "spool_file.h"

enum {
	SPOOL_MS = 20, /* between two polls of the ring */
	SPOOL_PATH_SIZE = SLUICE_PATH_SIZE + 32,
};

struct spool_status {
	char path[SPOOL_PATH_SIZE];    /* empty: none yet */
	char error[SLUICE_ERROR_SIZE]; /* why it cannot be written */
	int64_t since;		       /* UTC seconds: when counting began */
};

struct spool {
	pthread_t thread;
	int stop_fd;
	struct loader *loader;
	struct ring *ring;
	struct counters *counters;

	/* the thread's own */
	struct spool_file file;
	char path[SPOOL_PATH_SIZE];
	struct spool_head head; /* as it was written last */
	uint64_t first;		/* place of the record in slot 0 */
	int has_failed;		/* the last write */
	int waits;		/* for a slurmctld that still lives */

	pthread_mutex_t status_lock;
	struct spool_status status;
};

/* Start the thread; it ends when stop_fd becomes readable. -1: no thread. */
int spool_start (struct spool *spool, struct loader *loader, struct ring *ring,
		 struct counters *counters, uint64_t boot, int stop_fd);
/* After the thread has ended. */
void spool_destroy (struct spool *spool);

void spool_get_status (struct spool *spool, struct spool_status *out);

#endif
