/*
 * One wrapped call: it may wait before it begins, and is counted when it ends.
 */
#ifndef SLUICE_TURN_H
#define SLUICE_TURN_H

#include <stdint.h>

#include "files.h"
#include "process.h"

struct turn {
	const struct sluice_turns_words *words;
	struct sluice_turns_slot *slot;
	struct thread *thread;
	int fd;
	int is_durable;
	int is_nested; /* in a signal handler that interrupted another */
	uint64_t began;
};

/* Whether the file counts; then it has waited as long as the words say. Every turn_begin
 * that returned 1 is followed by turn_end. Leaves errno as it was, as all here do. */
int turn_begin (struct turn *turn, int fd);
/* The call wrote so much; nothing, where it failed. */
void turn_end (struct turn *turn, int64_t bytes, uint64_t operations);
/* What turn_end counts, of a call that did not begin as one that writes. */
void turn_count (int fd, uint64_t bytes, uint64_t operations);

/* The same of fsync, fdatasync and close, which never wait. */
int turn_begin_sync (struct turn *turn, int fd);
void turn_end_sync (struct turn *turn, uint64_t durable, uint64_t operations);

/* A way to write that is not seen was opened on this descriptor. */
void turn_uncovered (int fd, uint64_t bytes);

#endif
