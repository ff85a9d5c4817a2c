#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
#include "drain.h"

/* ---- directories, when nothing is made in them any more ---- */

/* What is in a directory comes before it. */
static int
backwards (const void *a, const void *b)
{
	const struct name *const *x = a, *const *y = b;
	return strcmp ((*y)->path, (*x)->path);
}

static int
set_directory (struct drain *drain, const struct name *name)
{
	struct stat found, there;
	int error = 0;

	if (tree_stat (drain->from, name->path, &found) < 0 || !S_ISDIR (found.st_mode))
		return tree_is_absent (errno) ? 0 : errno;
	int out = tree_directory (drain->to, name->path);
	if (out < 0 || fstat (out, &there) < 0)
		error = errno;
	int in = error || there.st_ino != name->is.copy
		     ? -1
		     : tree_directory (drain->from, name->path);
	if (in >= 0) {
		const struct timespec times[2] = { found.st_atim, found.st_mtim };
		error = content_attributes (in, out);
		if (error == 0
		    && (fchmod (out, found.st_mode & 07777) < 0
			|| futimens (out, times) < 0))
			error = errno;
		close (in);
	}
	if (out >= 0)
		close (out);
	return error;
}

int
ending_directories (struct drain *drain)
{
	struct name **all = names_all (&drain->names);
	int error = 0;

	qsort (all, drain->names.by_path.count, sizeof (struct name *), backwards);
	for (struct name **name = all; *name && error == 0; name++)
		if ((*name)->is.kind == KIND_DIRECTORY)
			error = set_directory (drain, *name);
	free (all);
	if (error == 0 && syncfs (drain->to) < 0)
		error = errno;
	return error;
}

/* ---- what is said in the end ---- */

static const char *
reason_text (int reason)
{
	switch (reason) {
	case 0:
		return "its turn did not come";
	case REASON_OPEN:
		return "a process has it open for writing";
	case REASON_CHANGED:
		return "it changed while it was read";
	case REASON_GONE:
		return "the local directory itself was removed, so the copies stay";
	case REASON_RESERVED:
		return "names that begin with " TREE_PART " are the drainer's own";
	default:
		return strerror (reason);
	}
}

struct told {
	int reason;
	size_t count;
	const char *first;
};

/* One line a reason: there may be a hundred thousand names. */
static void
tell (const struct drain *drain, const struct told *told)
{
	fprintf (stderr, "sluice-drain: %zu %s only in %s: %s (%s)\n", told->count,
		 told->count == 1 ? "name is" : "names are", drain->from_path,
		 reason_text (told->reason), told->first);
}

enum { MOST_REASONS = 32 };

int
ending_report (struct drain *drain)
{
	struct told told[MOST_REASONS];
	size_t count = 0;

	if (drain->unread_error)
		fprintf (stderr, "sluice-drain: %s/%s cannot be read: %s\n",
			 drain->from_path, drain->unread, strerror (drain->unread_error));
	const struct list *const lists[] = { &drain->queue.ready, &drain->queue.late };

	for (size_t l = 0; l < 2; l++)
		for (const struct item *item = lists[l]->first; item; item = item->next) {
			size_t t = 0;
			while (t < count && told[t].reason != item->reason)
				t++;
			if (t == MOST_REASONS)
				t--;
			if (t == count)
				told[count++]
				    = (struct told){ item->reason, 0, item->path };
			told[t].count++;
		}
	for (size_t t = 0; t < count; t++)
		tell (drain, &told[t]);
	return count > 0 || drain->unread_error;
}
