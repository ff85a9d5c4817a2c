/*
 * What is known of each open descriptor: whether its file counts, what it may still owe to
 * the storage, and the file locks taken on it.
 *
 * A guess, asked anew now and then: descriptors are also closed and opened where we do not
 * see it. Before a hold it is asked for certain (files_count_for_certain).
 */
#ifndef SLUICE_FILES_H
#define SLUICE_FILES_H

#include <stdint.h>

struct sluice_turns_words;

struct file {
	int counts;	/* a regular file on a device of the words */
	int is_durable; /* its writes are in the storage when they return */
	uint32_t device;
};

struct file files_find (const struct sluice_turns_words *words, int fd);
/* Without asking: it does not count unless it was written to. */
struct file files_known (int fd);
int files_count_for_certain (const struct sluice_turns_words *words, int fd);

/* Forgets what it is, not its locks. */
void files_forget (int fd);
/* Before it is closed: it has no locks any more either. */
void files_closed (int fd);
void files_closed_range (unsigned int first, unsigned int last);
/* `to` is now the same open file, whose flock it shares. */
void files_duplicated (int from, int to);

void files_wrote (int fd, uint64_t bytes);
/* What it owed, which an fsync has paid. */
uint64_t files_synced (int fd);

/* A lock of bytes [begin, end) was taken or released. */
void files_locked (int fd, uint64_t begin, uint64_t end);
void files_unlocked (int fd, uint64_t begin, uint64_t end);

#define FILES_LOCK_END UINT64_MAX

#endif
