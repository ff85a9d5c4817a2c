/*
 * Make a directory that did not exist before, as the job's user, and put it on
 * its targets.
 *
 * All of it happens in a child process that has given up every other identity,
 * so that the kernel refuses whatever the user could not do himself. The name is
 * made by mkdirat in an open parent and entered without following links; what
 * exists is left as it is. The child is killed when it takes too long: a file
 * system may hang.
 */
#ifndef SLUICE_DIRECTORY_H
#define SLUICE_DIRECTORY_H

#include <stdint.h>
#include <sys/types.h>

struct directory_request {
	uid_t uid;	    /* must be the effective user already */
	const char *parent; /* absolute */
	const char *name;   /* one part, no slash */
	/* Any path on the file system that parent must be on. */
	const char *file_system;
	/* 1: a directory of this name that belongs to the user counts as made
	 * and placed; it is not touched. */
	int may_exist;
	/* Placement command, without a shell, run in the new directory; words[0]
	 * NULL: none. When it fails the directory is removed again. */
	const char *const *words;
	uint32_t timeout_s;
};

/* 0, or -1 with a reason that names no path, for a log. */
int directory_make (const struct directory_request *request, char *why, size_t size);

#endif
