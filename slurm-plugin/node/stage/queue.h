/*
 * The paths to look at, in the order of their last events: each stands here once. Those
 * that cannot be drained now wait apart, each with the reason and the time when it is
 * looked at again, and hold none of the others up.
 */
#ifndef SLUICE_STAGE_QUEUE_H
#define SLUICE_STAGE_QUEUE_H

#include <stdint.h>

#include "table.h"

/* Why a path waits: an errno of the destination or of the local file, or one of these. */
enum reason {
	REASON_OPEN = -1,
	REASON_CHANGED = -2,
	REASON_RESERVED = -3,
	REASON_GONE = -4
};

struct item {
	struct link by_path;
	struct item *next, *previous;
	int64_t due; /* ns */
	int reason;  /* 0: it has not been looked at */
	uint32_t tries;
	uint8_t is_late;
	/* Content is compared even where size and times are what they were. */
	uint8_t is_forced;
	char path[];
};

struct list {
	struct item *first, *last;
};

struct queue {
	struct table by_path;
	struct list ready, late;
};

/* To the end, whether it is there or not. */
void queue_add (struct queue *queue, const char *path, int64_t due, int is_forced);
/* The first that is due, taken out; NULL: none. The caller frees it. */
struct item *queue_take (struct queue *queue, int64_t now);
/* What was taken and cannot be drained now. */
void queue_wait (struct queue *queue, struct item *item, int64_t due, int reason);
/* Those that wait and are due are ready. */
void queue_wake (struct queue *queue, int64_t now);
/* When there is something to do; INT64_MAX: never. */
int64_t queue_due (const struct queue *queue);

#endif
