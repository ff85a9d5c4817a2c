/*
 * Make a directory that did not exist before, as the job's user, and put it on
 * its targets.
 *
 * The kernel refuses whatever the user could not do himself (directory.c). The name
 * is made by mkdirat in an open parent and entered without following links; what
 * exists is left as it is.
 */
#ifndef SLUICE_DIRECTORY_H
#define SLUICE_DIRECTORY_H

#include <stdint.h>
#include <sys/types.h>

enum { DIRECTORY_NAME_SIZE = 80 };

struct directory_request {
	uid_t uid;	    /* the effective user, see as_user */
	const char *parent; /* absolute; with the sticky bit if all may write */
	const char *name;   /* one part, no slash */
	/* Any path on the file system that parent must be on. */
	const char *file_system;
	/* 1: a directory of this name that belongs to the user counts as made
	 * and placed; it is not touched. */
	int may_exist;
	/* One that belongs to the user and whose name begins so counts, too; NULL: none. */
	const char *prefix;
	/* Placement command, run in the new directory; words[0] NULL: none. When
	 * it fails, or is killed after timeout_s, the directory is removed. */
	const char *const *words;
	uint32_t timeout_s; /* all together take two seconds more at most */
};

/* 0, with its name where another one was found by the prefix, else with an empty text; or
 * -1 with a reason that names no path, for a log. */
int directory_make (const struct directory_request *request,
		    char found[DIRECTORY_NAME_SIZE], char *why, size_t size);

/* A directory of the user's whose layout changes while the job runs. */
struct directory_following {
	uid_t uid; /* the effective user, see as_user */
	const char *path;
	uint32_t timeout_s; /* of a command */
	/* Asked once a second for the command that is to run in it now; 0: none. Runs as
	 * `work` does, in the same process each time. */
	int (*next) (void *data, const char *words[]);
	void *data;
};

/* Have a process of the user's run these commands, until the returned descriptor is closed
 * or a command fails. -1: there is none. */
int directory_follow (const struct directory_following *following);

/* In a child that has nothing of its host: only this descriptor stays open, as PROCESS_FD,
 * and is closed by an exec. -1 with errno. */
enum { PROCESS_FD = 3 };
int process_detach (int descriptor);
/* Slurm has set the effective ids and the groups: the others, for good. -1: it cannot. */
int process_become (uid_t uid);

#endif
