/*
 * The held bursts, one JSON object a line, for sluiced, which stores them in the history
 * (sluice/slurm/turns.py).
 *
 * A thread of its own writes, because a disk may hang. The file is bounded: a full one is
 * renamed to PATH.1 in place of the one before. Lines that find no room, on their way or on
 * the disk, are counted and gone.
 */
#ifndef SLUICE_JOURNAL_H
#define SLUICE_JOURNAL_H

#include "base.h"
#include "bursts.h"

enum {
	JOURNAL_LINE = 512,
	JOURNAL_WAITING = 1024,	     /* lines on their way */
	JOURNAL_MAX_BYTES = 2 << 20, /* of a file */
};

struct journal;

int journal_start (const char *path, struct journal **out, struct sluice_error *err);
/* `clock` is now, of that of the burst. Never waits. */
void journal_add (struct journal *journal, const struct held_burst *burst, double clock);
uint64_t journal_lost (struct journal *journal);

#endif
