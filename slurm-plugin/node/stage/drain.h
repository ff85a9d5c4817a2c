/*
 * One drainer: two directories, the names that were published, the paths that wait.
 *
 *   watch.c      events and scans put paths into the queue
 *   publish.c    looks at one path, and makes the destination what the local side is
 *   batch.c      files that are copied, and become visible together, in order
 *   remove.c     copies go when their local names are gone
 *   loading.c    what an earlier drainer has done
 *   ending.c     directories' attributes, and what is said of what is left
 */
#ifndef SLUICE_STAGE_DRAIN_H
#define SLUICE_STAGE_DRAIN_H

#include <sys/stat.h>

#include "journal.h"
#include "published.h"
#include "queue.h"
#include "tree.h"

enum { BATCH_FILES = 64, BATCH_BYTES = 16 << 20, SMALL_BYTES = 512 << 10 };
#define SECOND_NS 1000000000LL

/* A copy that is whole under its temporary name. */
struct copied {
	struct item *item;
	struct identity is;
};

struct drain {
	const char *from_path, *to_path, *journal_path;
	int from, to;
	struct stat destination; /* what to_path was at the start */
	struct names names;
	struct queue queue;
	struct journal journal;
	struct copied batch[BATCH_FILES];
	uint32_t batch_count;
	int64_t batch_bytes, batch_since;
	uint8_t batch_has_unsynced;
	/* watch.c */
	int events;
	struct table watches;
	uint32_t scan;
	int unread_error; /* of the last scan of all, and where */
	char unread[PATH_MAX];
	uint8_t must_scan;  /* events were lost, or some directory is not watched */
	uint8_t has_missed; /* so that content must be compared in the end */
	uint8_t is_blind;
	/* the loop */
	int signals;
	uint64_t rate; /* bytes a second, 0: any */
	int64_t patience_s;
	uint8_t is_once; /* --once, or SIGTERM has come */
	int64_t settle;	 /* ns from a path's last event until it is looked at */
	int64_t paced_until, paused_until, progress;
	uint32_t failures; /* of the destination, one after the other */
	/* Bytes of a copy that failed before are no progress. */
	uint8_t is_ending, is_stopping, is_first_try;
	uint64_t published, bytes;
};

int64_t now_ns (void);
/* Handles signals and events; what content.h calls between two blocks. */
int drain_between (void *data, int64_t written);
/* Waits until this time, or an event or a signal. */
void drain_wait (struct drain *drain, int64_t until);
/* An item that cannot be drained for this reason is looked at again, later. */
void drain_later (struct drain *drain, struct item *item, int reason);
/* Events of a path count from now on. */
void drain_add (struct drain *drain, const char *path, int is_forced);

/* watch.c */
void watch_start (struct drain *drain);
void watch_read (struct drain *drain);
/* Puts into the queue what differs from what was published, and the names that are gone:
 * all of the tree with "". is_forced: contents are compared. checks_copies: copies that are
 * not at the destination any more count as not published. */
void watch_scan (struct drain *drain, const char *path, int is_forced, int checks_copies);

/* publish.c: 0: the item has been seen to, or is in the batch (*taken); or the reason. */
int publish (struct drain *drain, struct item *item, int *taken);
/* publish_file.c: of a regular file; its local directory is open. */
int publish_file (struct drain *drain, struct item *item, int parent, const char *base,
		  const struct stat *seen, int *taken);
/* A file, a directory or a symbolic link: others hold no bytes. */
int publish_can (mode_t mode);
/* The destination's directory for this path, made where it is missing; -1 with errno. */
int publish_parent (struct drain *drain, const char *path, const char **base);
/* Renames a temporary name to the path, which is the drainer's then. 0, or an errno. */
int publish_part (struct drain *drain, const char *path, int parent, const char *base,
		  const struct identity *is);

/* batch.c: 0, or the reason why its files wait again. */
int batch_flush (struct drain *drain);
int batch_has (const struct drain *drain, const char *path, uint64_t inode);

/* remove.c: 0, or an errno, or a reason of queue.h. */
int remove_name (struct drain *drain, const char *path);
/* Removes the copies below a path at the destination that are the drainer's. */
int remove_below (struct drain *drain, const char *path);
/* Whether what is there is the copy that the drainer made under this name. */
int is_own_copy (const struct name *name, const struct stat *there);

/* options.c: ends the program where they cannot be meant. */
void options_parse (int argc, char **argv, struct drain *drain);

/* loading.c: what the journal says, and what has happened since; -1: it has said why.
 * roots: both directories, a line each. */
int load (struct drain *drain, const char *roots);

/* ending.c: 0, or an errno. */
int ending_directories (struct drain *drain);
int ending_report (struct drain *drain);

#endif
