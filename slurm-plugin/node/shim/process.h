/*
 * This process and what it shares with the agent: the mapped page and words, its slot.
 */
#ifndef SLUICE_PROCESS_H
#define SLUICE_PROCESS_H

#include <stddef.h>

#include "page.h"

/* Relaxed: each member stands for itself (page.h). */
#define LOAD(member) __atomic_load_n (&(member), __ATOMIC_RELAXED)
#define STORE(member, now) __atomic_store_n (&(member), (now), __ATOMIC_RELAXED)
#define ADD(member, more) __atomic_fetch_add (&(member), (more), __ATOMIC_RELAXED)

/* Out of the way of what every write passes. */
#define COLD __attribute__ ((cold, noinline))

/* Maps page and words; from then on words are there. For the constructor. */
void process_attach (void);
/* Sums up and frees the slot; nothing is counted or held any more. */
void process_end (void);
/* The same of _exit, which a child of vfork may call: this memory may be its parent's. */
void process_exits (void);

/* The words, or NULL: not attached, or ended. */
const struct sluice_turns_words *process_words (void);

/* The slot of this process, also in a child that forked: taken if need be. NULL: not
 * attached, or the page is full. */
struct sluice_turns_slot *process_slot (void);
/* Whether this is the slot of this process; it is not in a child that forked in a call. */
int process_has (const struct sluice_turns_slot *slot);
/* Whether the memory is this process's own: not in a child of vfork, if its parent has a
 * slot. */
int process_is_own (void);
/* Whether any process of the job on this node has a file lock. */
int process_job_has_lock (void);

/* A process that restricts its own system calls makes none for us from then on. */
void process_restrict (void);
/* Nor does a program that it starts by exec, which a filter would follow there. */
void process_end_at_exec (void);
int process_is_restricted (void);

/* Of the descriptors of page and words, the lowest from `first` to `last`, or -1. Programs
 * that close all descriptors before an exec do not know of these, so they stay open: what
 * such a program starts would not be seen. */
int process_kept (unsigned int first, unsigned int last);

/* Descriptors with locks of this process, which its children start out with. */
void process_count_lock (int more);

/* What a thread has under way; taken off the slot when it is cancelled in the midst. */
struct thread {
	struct sluice_turns_slot *slot;
	const void *frame; /* somewhere in the stack frame of the outermost call */
	uint32_t depth;	   /* wrapped calls, nested by signal handlers */
	uint32_t writing;  /* of those counted in the slot, this thread's */
	uint32_t syncing;
	uint32_t waiting;
	int is_known;
};
struct thread *process_thread (void);
/* A call begins in this frame: whether an outer one is still under way, and was not left by
 * siglongjmp. */
int process_thread_enter (struct thread *thread, const void *frame);

#endif
