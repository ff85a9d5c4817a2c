#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "drain.h"

/* Times of some file systems are whole seconds. Directories change theirs. A drainer that
 * was killed may have announced a copy that did not take the place of the one before. */
int
is_own_copy (const struct name *name, const struct stat *there)
{
	struct identity is = identity_of (there);
	if (name->is.before && is.inode == name->is.before)
		return 1;
	if (name->is.copy == 0 || is.inode != name->is.copy || is.kind != name->is.kind)
		return 0;
	return is.kind == KIND_DIRECTORY
	       || there->st_mtim.tv_sec == name->is.mtime / SECOND_NS;
}

static void
drop (struct drain *drain, struct name *name)
{
	journal_append (&drain->journal, RECORD_DROP, name->path, NULL);
	names_drop (&drain->names, name);
}

/* What others have put there, or into a directory, stays. */
static int
remove_copy (struct drain *drain, struct name *name)
{
	const char *base;
	struct stat there;
	int error = 0;
	int parent = tree_parent (drain->to, name->path, &base);

	if (parent < 0 || fstatat (parent, base, &there, AT_SYMLINK_NOFOLLOW) < 0)
		error = tree_is_absent (errno) ? 0 : errno;
	else if (is_own_copy (name, &there)
		 && unlinkat (parent, base, S_ISDIR (there.st_mode) ? AT_REMOVEDIR : 0) < 0
		 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
		error = errno;
	if (parent >= 0)
		close (parent);
	if (error == 0)
		drop (drain, name);
	return error;
}

int
remove_below (struct drain *drain, const char *path)
{
	char **entries = tree_list (drain->to, path);
	int error = entries || tree_is_absent (errno) ? 0 : errno;

	for (char **entry = entries; entry && *entry && error == 0; entry++) {
		char *below = tree_join (path, *entry);
		struct name *name = names_find (&drain->names, below);
		if (name && name->is.kind == KIND_DIRECTORY)
			error = remove_below (drain, below);
		if (name && error == 0)
			error = remove_copy (drain, name);
		free (below);
	}
	tree_free (entries);
	return error;
}

int
remove_name (struct drain *drain, const char *path)
{
	struct stat root;
	int error = batch_flush (drain);
	struct name *name = names_find (&drain->names, path);
	if (error || !name)
		return error;
	/* all at once: a cleaner, and not the program */
	if (fstat (drain->from, &root) == 0 && root.st_nlink == 0)
		return REASON_GONE;
	if (name->is.kind == KIND_DIRECTORY)
		error = remove_below (drain, path);
	return error ? error : remove_copy (drain, name);
}
