/*
 * What the kernel says of this node's processes, for all pages together.
 *
 * What a job writes into its page can make us look for a process or a lock that is not
 * there, in each slot, for ever. So /proc is read in parts of a fixed size, for whichever
 * pages ask, and /proc/locks once a check.
 */
#ifndef SLUICE_PROCESSES_H
#define SLUICE_PROCESSES_H

#include <dirent.h>
#include <stdint.h>

enum {
	PROCESSES_PART = 128,	     /* entries of /proc that one scan reads */
	PROCESSES_MOST_LOCKS = 4096, /* lines of /proc/locks */
};

/* A process that is in a container. */
struct processes_inner {
	uint32_t uid;
	uint32_t pid; /* that it has for itself */
	int32_t host; /* that it has here */
};

struct processes_list {
	struct processes_inner *all;
	uint32_t count, room;
};

struct processes {
	struct processes_list listed; /* sorted; by the last census that was completed */
	struct processes_list draft;  /* by the one under way */
	DIR *proc;
	uint64_t wanted; /* the number of a census that is waited for; the first is 1 */
	uint64_t begun, done;
	int32_t locks[PROCESSES_MOST_LOCKS];
	uint32_t lock_count;
	int are_locks_read;
	int is_owner_unknown; /* of some lock: may be any user's */
};

/* Read a file of a process as text. 0: it has content. */
int processes_read (int pid, const char *file, char *text, size_t size);

/* Another scan: go on with the census under way, or begin one that is wanted. */
void processes_read_on (struct processes *processes);
/* Returns the number of a census that begins after this call. */
uint64_t processes_want (struct processes *processes);
/* Those of this uid and pid inside; returns how many. */
uint32_t processes_find (const struct processes *processes, uint32_t uid, uint32_t pid,
			 const struct processes_inner **first);

/* Another check: locks are to be read again. */
void processes_forget_locks (struct processes *processes);
/* Whether a process of this pid may have left a file lock to others: those of flock are
 * under the pid that took them, those of open file descriptions under none. */
int processes_may_have_left_lock (struct processes *processes, int32_t pid);

#endif
