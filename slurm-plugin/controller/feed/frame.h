/*
 * Answers on standard output: frames of a length, a kind and that many bytes,
 * in this machine's byte order. Text is bytes behind their count, so nothing
 * that a user writes can end a field or begin another.
 */
#ifndef SLUICE_FRAME_H
#define SLUICE_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4 under a key of this process's own: without the key nothing can make
 * two records of one digest, so no change of a job goes unnoticed. */

void digest_init (void);
uint64_t digest (const unsigned char *bytes, size_t size);

/* sluice/slurm/queue.py has the same numbers. */
enum frame_kind {
	FRAME_HELLO = 1,   /* protocol, Slurm's version */
	FRAME_JOB,	   /* new or changed */
	FRAME_GONE,	   /* ids of jobs that Slurm forgot */
	FRAME_LICENSE,	   /* total, used, reserved, text: name */
	FRAME_RESERVATION, /* start, end, flags, nodes, texts: name, licences */
	FRAME_ROOM,	   /* nodes, cpus, unlimited, text: partition */
	FRAME_ERROR,	   /* errno, text: what failed and why */
	FRAME_END,
	FRAME_CHANGE,	  /* job id, outcome, text: why it was not done */
	FRAME_PRIORITIES, /* job id and priority of those that are new or have another */
	FRAME_REASON,	  /* text: why they wait; ids of jobs of which that is new */
};

void frame_begin (enum frame_kind kind);
void frame_u32 (uint32_t value);
void frame_u64 (uint64_t value);
void frame_bytes (const void *bytes, size_t size);
void frame_text (const char *text); /* NULL: empty */
void frame_end (void);

/* What was begun and not ended yet. */
const unsigned char *frame_payload (size_t *size);

/* Forgets the frame that was begun. */
void frame_drop (void);

/* Hands everything over; ends the process when its reader is gone. */
void frame_flush (void);

#endif
