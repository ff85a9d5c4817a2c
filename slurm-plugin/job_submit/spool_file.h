/*
 * The file of a spool: what a ring holds and what was counted, so that the next
 * slurmctld can go on with it. The file is this machine's own and short-lived:
 * numbers are as in memory.
 *
 *   head          twice, written in turn: the one that is whole and newer counts
 *   slots         a record each, with its place in the ring
 *
 * Every part has a checksum, because kill -9 may end a write in its middle. The
 * file is written and read, never mapped: somebody may truncate it. It is locked
 * while its slurmctld lives, and the lock ends with the process.
 */
#ifndef SLUICE_SPOOL_FILE_H
#define SLUICE_SPOOL_FILE_H

#include <sys/stat.h>

#include "counters.h"
#include "record.h"

/* What is true of the ring when all slots are written. */
struct spool_head {
	char magic[8];
	uint64_t checksum;	 /* CRC-64 of all behind it */
	uint64_t sequence;	 /* rising */
	uint64_t boot;		 /* whose file this is */
	uint32_t record_version; /* another one cannot be handed over */
	uint32_t record_size;
	uint64_t written; /* places of the ring that are in the file, or were */
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

/* Make a new file that nobody else can read, and lock it. 0, or -1 with the reason. */
int spool_file_create (struct spool_file *file, const char *path, struct sluice_error *err);
/* Open and lock the file of a slurmctld that is gone. 0; 1: it lives; -1: no such
 * file of ours, with the reason. */
int spool_file_adopt (struct spool_file *file, const char *path, struct sluice_error *err);
void spool_file_close (struct spool_file *file);

/* Whether the file is at path still, and nobody has put another there. */
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

#endif
