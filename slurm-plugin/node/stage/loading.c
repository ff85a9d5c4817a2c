#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drain.h"

struct loading {
	struct drain *drain;
	const char *roots;
	struct names parts;
	int is_other; /* of other directories */
};

static void
clear_names (struct names *names)
{
	struct name **all = names_all (names);
	for (struct name **name = all; *name; name++)
		names_drop (names, *name);
	free (all);
}

static void
take_record (void *data, enum record_type type, const char *path, const struct identity *is)
{
	struct loading *loading = data;
	struct names *names = &loading->drain->names;
	static const struct identity none;

	if (type == RECORD_ROOTS)
		loading->is_other = strcmp (path, loading->roots) != 0
				    || is->inode != loading->drain->destination.st_ino;
	else if (type == RECORD_PUT)
		names_put (names, path, is);
	else if (type == RECORD_DROP && names_find (names, path))
		names_drop (names, names_find (names, path));
	else if (type == RECORD_PART)
		names_put (&loading->parts, path, &none);
	else if (type == RECORD_NO_PARTS)
		clear_names (&loading->parts);
}

static void
discard_parts (struct drain *drain, const struct names *parts)
{
	struct name **all = names_all (parts);
	for (struct name **name = all; *name; name++) {
		char part[NAME_MAX + 1];
		const char *base;
		int parent = tree_parent (drain->to, (*name)->path, &base);
		if (parent < 0)
			continue;
		tree_part (base, part);
		tree_discard (parent, part);
		close (parent);
	}
	free (all);
}

static int
by_path (const void *a, const void *b)
{
	const struct name *const *x = a, *const *y = b;
	return strcmp ((*x)->path, (*y)->path);
}

/* An earlier drainer has given it the mode that it has for others. */
static void
open_directory (struct drain *drain, const struct name *name, mode_t mode)
{
	const char *base;
	int parent = tree_parent (drain->to, name->path, &base);
	if (parent < 0)
		return;
	(void)!fchmodat (parent, base, (mode & 07777) | 0700, 0);
	close (parent);
}

/* What was to take the place of an earlier copy has done so, or not. */
static void
check_names (struct drain *drain, int is_damaged)
{
	struct name **all = names_all (&drain->names);
	qsort (all, drain->names.by_path.count, sizeof (struct name *), by_path);
	for (struct name **name = all; *name; name++) {
		int is_directory = (*name)->is.kind == KIND_DIRECTORY;
		struct stat there;
		if (is_damaged)
			(*name)->is_stale = !is_directory;
		if (tree_stat (drain->to, (*name)->path, &there) < 0
		    || there.st_ino != (*name)->is.copy)
			continue;
		(*name)->is.before = 0;
		if (is_directory && (there.st_mode & 0700) != 0700)
			open_directory (drain, *name, there.st_mode);
	}
	free (all);
}

/* Contents are compared with what the journal says: an mmap that no event has told of, as
 * none is told to a drainer that does not run, may leave sizes and times as they were. */
int
load (struct drain *drain, const char *roots)
{
	struct loading loading = { .drain = drain, .roots = roots };
	struct identity destination = identity_of (&drain->destination);
	enum journal_state state
	    = journal_open (&drain->journal, drain->journal_path, take_record, &loading);

	if (state == JOURNAL_UNUSABLE) {
		fprintf (stderr, "sluice-drain: %s: %s\n", drain->journal_path,
			 strerror (errno));
		return -1;
	}
	if (loading.is_other) {
		fprintf (
		    stderr,
		    "sluice-drain: %s is of other directories, or %s is not what it was; "
		    "remove the journal to copy all\n",
		    drain->journal_path, drain->to_path);
		return -1;
	}
	if (state == JOURNAL_DAMAGED) {
		fprintf (stderr, "sluice-drain: %s is damaged: all is copied again\n",
			 drain->journal_path);
	}
	check_names (drain, state == JOURNAL_DAMAGED);
	discard_parts (drain, &loading.parts);
	clear_names (&loading.parts);
	free (loading.parts.by_path.slots);
	free (loading.parts.by_inode.slots);
	journal_rewrite (&drain->journal, roots, &destination, &drain->names);
	watch_scan (drain, "", drain->names.by_path.count > 0, 1);
	return 0;
}
