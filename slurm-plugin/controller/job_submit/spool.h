/*
 * Hands what the ring holds over to the next slurmctld: a restart ends this one, and
 * from 23.11 `scontrol reconfigure` does too.
 *
 * A thread copies ring and counters into a file next to the socket,
 * `<Socket>.spool.<boot>`: at once when there is a record, else within SPOOL_MS, and for
 * the last time when slurmctld exits. A reconfiguration ends the old process without an
 * exit, but it stops threads and saves Slurm's state first. So nothing is lost by either,
 * and at kill -9 what was submitted a moment before. The file grows with what waits and
 * holds a ring at most.
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

#include <sys/stat.h>

#include "counters.h"
#include "loader.h"
#include "record.h"

/*
 * The file of a spool: what a ring holds and what was counted, so that the next
 * slurmctld can go on with it. The file is this machine's own and short-lived:
 * numbers are as in memory.
 *
 *   head          twice, written in turn: the one that is whole and newer counts
 *   slots         a record each, with its place in the ring
 *
 * Every part has a checksum, because kill -9 may end a write in its middle. The
 * file is written and read, never mapped: another process may truncate it. It is locked
 * while its slurmctld lives, and the lock ends with the process.
 */

/* The ring when this was written; a record whose slot is not written then is lost. */
struct spool_head {
	char magic[8];
	uint64_t checksum;	 /* CRC-64 of all behind it */
	uint64_t sequence;	 /* rising */
	uint64_t boot;		 /* which the file is of */
	uint32_t record_version; /* another one cannot be handed over */
	uint32_t record_size;
	uint64_t written; /* records put into the ring */
	uint64_t removed; /* of these, acknowledged */
	uint64_t dropped; /* as in the ring */
	uint64_t lost;
	int64_t since; /* UTC seconds: when counting began */
	uint64_t counted[COUNTERS_COUNT];
};

struct spool_slot {
	uint64_t checksum; /* CRC-64 of all behind it */
	uint64_t place;
	struct sluice_record record;
};

struct spool_file {
	int fd; /* -1: none */
	struct stat made;
};

/* Make a new file that no other user can read, and lock it. 0, or -1 with the reason. */
int spool_file_create (struct spool_file *file, const char *path, struct sluice_error *err);
/* Open and lock the file of a slurmctld that is gone. 0; 1: it lives; -1: no such
 * file of ours, with the reason. */
int spool_file_adopt (struct spool_file *file, const char *path, struct sluice_error *err);
void spool_file_close (struct spool_file *file);

/* Whether the file is at path still, and not replaced by another. */
int spool_file_is_at (const struct spool_file *file, const char *path);

/* Write the next head; fills in what makes it one. 0, or -1 with the reason. */
int spool_file_put_head (const struct spool_file *file, struct spool_head *head,
			 struct sluice_error *err);
/* 0, or -1 when none is whole. */
int spool_file_get_head (const struct spool_file *file, struct spool_head *out);

int spool_file_put_record (const struct spool_file *file, uint32_t slot, uint64_t place,
			   const struct sluice_record *record, struct sluice_error *err);
/* 0, 1: the slot is damaged or empty, -1: behind the end. */
int spool_file_get_slot (const struct spool_file *file, uint32_t slot,
			 struct spool_slot *out);

enum {
	SPOOL_MS = 20, /* between two polls of ring and counters */
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
	uint64_t next;		/* place of the next record to be written */
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
