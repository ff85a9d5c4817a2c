/*
 * Storage backends: how a fresh, empty directory is put on the targets of a
 * lane, so that all files made below it land there.
 */
#ifndef SLUICE_BACKEND_H
#define SLUICE_BACKEND_H

#include "settings.h"

enum { BACKEND_WORDS = 6 }; /* of the longest command, with its NULL */

struct backend {
	const char *name;
	/* The usual place of its command; NULL: being below the lane's path is
	 * placement enough. */
	const char *command;
	/* The words behind the command, which runs in the fresh directory: an open
	 * directory cannot be exchanged for another, a path could. */
	void (*words) (const struct lane *lane, const char *words[]);
};

/* NULL: there is none of that name. */
const struct backend *backend_named (const char *name);

/* Fill words with a NULL-terminated command line that points into settings and
 * lane, or with a NULL alone where the backend needs no command. */
void backend_command (const struct settings *settings, const struct lane *lane,
		      const char *words[BACKEND_WORDS]);

#endif
