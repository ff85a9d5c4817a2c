/*
 * The memory shared with the processes of one job (page.h): made here, summed up here, and
 * slots of the dead are freed here.
 *
 * What stands in the page is the job's word on itself. Nothing in it is an index, a size or
 * a pointer to us; the number of slots is our own.
 */
#ifndef SLUICE_PAGES_H
#define SLUICE_PAGES_H

#include "base.h"
#include "processes.h"
#include "registration.h"

enum {
	PAGES_SLOTS = 256,
	PAGES_MAX_SLOTS = 4096,
	PAGES_THOROUGH = 30, /* of the checks of a slot, one reads /proc */
};

/* The process of a slot. */
struct pages_host {
	int32_t pid;	    /* here, where that is another; 0: that of the slot */
	int32_t is_stopped; /* what it has under way goes on when it does */
	/* Of the slot that this was found for. */
	uint32_t slot_pid;
	uint64_t space, taken;
	uint32_t checks;
	uint64_t census; /* dead unless this one lists it (processes.h); 0: none */
};

struct pages {
	int page_fd;
	int words_fd; /* read-only: for the job */
	size_t page_size;
	uint32_t slot_count;
	uint32_t uid;
	struct sluice_turns_page *page;
	struct sluice_turns_words *words;
	uint64_t pid_namespace;	  /* our own */
	struct pages_host *hosts; /* by slot */
	uint32_t next;		  /* slot to be checked */
};

/* What the processes of a job on this node do. Counters of those that ended included. */
struct pages_sum {
	uint64_t bytes, uncovered, uncovered_bytes, refused;
	uint64_t operations; /* that a target has to serve */
	uint64_t last;	     /* end of the last call */
	uint32_t writers;    /* processes that wrote and live */
	/* Threads in a call that writes or syncs, and those that wait; not of processes
	 * that are stopped. */
	uint32_t writing, waiting;
	uint32_t locks;
};

int pages_make (struct pages *pages, const struct sluice_agent_request *request,
		struct sluice_error *err);
void pages_destroy (struct pages *pages);

void pages_add_up (const struct pages *pages, struct pages_sum *sum);
/* See which processes are stopped, and free the slots of those that are gone, or whose pid
 * is another's now. At most `looks` processes are asked about; the next call goes on.
 * Returns how many of these looks are left. */
uint32_t pages_see_processes (struct pages *pages, struct processes *processes,
			      uint32_t looks);

/* Writes wait, or go at `rate` B/s a process, until then; 0: they go. */
void pages_say (struct pages *pages, uint64_t until, uint64_t rate);
/* New files go to these targets until then; 0: wherever they would. */
void pages_place (struct pages *pages, uint64_t until,
		  const struct sluice_turns_targets *targets);
/* No call waits for longer than so many ms, whatever is said. */
void pages_bound (struct pages *pages, uint32_t longest_ms);

#endif
