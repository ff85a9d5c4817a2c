#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c.h"
#include "drain.h"

int
publish_can (mode_t mode)
{
	return S_ISREG (mode) || S_ISDIR (mode) || S_ISLNK (mode);
}

/* ---- directories ---- */

/* For us to work in; what it is called for others comes in the end. */
static mode_t
open_mode (const struct stat *found)
{
	return (found->st_mode & 0777) | 0700;
}

static int
remove_own (struct drain *drain, const char *path, int parent, const char *base,
	    const struct stat *there)
{
	struct name *name = names_find (&drain->names, path);
	if (!name || !is_own_copy (name, there))
		return EEXIST;
	return unlinkat (parent, base, 0) < 0 ? errno : 0;
}

static int
make_directory (struct drain *drain, const char *path, int parent, const char *base,
		const struct stat *found)
{
	char part[NAME_MAX + 1];
	struct stat made;
	struct identity is = identity_of (found);

	tree_part (base, part);
	journal_append (&drain->journal, RECORD_PART, path, NULL);
	tree_discard (parent, part);
	if (mkdirat (parent, part, 0700) < 0
	    || fchmodat (parent, part, open_mode (found), 0) < 0
	    || fstatat (parent, part, &made, AT_SYMLINK_NOFOLLOW) < 0)
		return errno;
	is.copy = made.st_ino;
	return publish_part (drain, path, parent, base, &is);
}

static int
put_directory (struct drain *drain, const char *path, int parent, const char *base,
	       const struct stat *found)
{
	struct name *name = names_find (&drain->names, path);
	struct stat there;

	if (fstatat (parent, base, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? make_directory (drain, path, parent, base, found)
				       : errno;
	if (!S_ISDIR (there.st_mode)) {
		int error = remove_own (drain, path, parent, base, &there);
		return error ? error : make_directory (drain, path, parent, base, found);
	}
	struct identity is = identity_of (found);
	is.copy = name && is_own_copy (name, &there) ? name->is.copy : 0;
	if (is.copy && (there.st_mode & 0700) != 0700
	    && fchmodat (parent, base, open_mode (found), 0) < 0)
		return errno;
	journal_append (&drain->journal, RECORD_PUT, path, &is);
	names_put (&drain->names, path, &is);
	return 0;
}

static int
publish_directory (struct drain *drain, const char *path, const struct stat *found)
{
	const char *base;
	int error = batch_flush (drain);
	int parent = error ? -1 : publish_parent (drain, path, &base);
	if (parent < 0)
		return error ? error : errno;
	error = put_directory (drain, path, parent, base, found);
	close (parent);
	return error;
}

/* Of the directory's own name; the local one may be gone by now. */
static int
make_parent (struct drain *drain, const char *path, size_t length)
{
	struct stat found = { .st_mode = S_IFDIR | 0700 };
	char *directory = need (strndup (path, length));

	if (tree_stat (drain->from, directory, &found) == 0 && !S_ISDIR (found.st_mode))
		found.st_mode = S_IFDIR | 0700;
	int error = publish_directory (drain, directory, &found);
	free (directory);
	return error;
}

int
publish_parent (struct drain *drain, const char *path, const char **base)
{
	int parent = tree_parent (drain->to, path, base);
	if (parent >= 0 || !tree_is_absent (errno))
		return parent;
	const char *slash = strrchr (path, '/');
	int error = slash ? make_parent (drain, path, (size_t)(slash - path)) : errno;
	if (error == 0)
		return tree_parent (drain->to, path, base);
	errno = error;
	return -1;
}

/* ---- names ---- */

/* Where a directory of ours stands in a file's way, or the other way round. */
static int
clear (struct drain *drain, const char *path, int parent, const char *base)
{
	struct stat there;
	int error = remove_below (drain, path);
	if (error || fstatat (parent, base, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return error ? error : errno;
	struct name *name = names_find (&drain->names, path);
	if (!name || !is_own_copy (name, &there))
		return EEXIST;
	return unlinkat (parent, base, S_ISDIR (there.st_mode) ? AT_REMOVEDIR : 0) < 0
		   ? errno
		   : 0;
}

int
publish_part (struct drain *drain, const char *path, int parent, const char *base,
	      const struct identity *is)
{
	char part[NAME_MAX + 1];

	tree_part (base, part);
	struct stat there;
	if (fstatat (parent, base, &there, AT_SYMLINK_NOFOLLOW) == 0
	    && S_ISDIR (there.st_mode) != (is->kind == KIND_DIRECTORY)) {
		int error = clear (drain, path, parent, base);
		if (error)
			return error;
	}
	struct name *name = names_find (&drain->names, path);
	struct identity now = *is;
	now.before = name ? name->is.copy : 0;
	journal_append (&drain->journal, RECORD_PUT, path, &now);
	if (renameat (parent, part, parent, base) < 0) {
		int error = errno;
		if (name)
			journal_append (&drain->journal, RECORD_PUT, path, &name->is);
		return error;
	}
	unlinkat (parent, part, 0); /* two names of one file stay two */
	now.before = 0;
	names_put (&drain->names, path, &now);
	return 0;
}

static int
publish_link (struct drain *drain, const char *path, int parent, const char *from_base,
	      const struct stat *found)
{
	char target[PATH_MAX], part[NAME_MAX + 1];
	struct identity is = identity_of (found);
	struct name *name = names_find (&drain->names, path);
	const struct timespec times[2] = { found->st_atim, found->st_mtim };
	const char *base;
	struct stat made;

	if (name && !name->is_stale && identity_same (&name->is, &is))
		return 0;
	ssize_t length = readlinkat (parent, from_base, target, sizeof target - 1);
	if (length < 0)
		return REASON_CHANGED;
	target[length] = '\0';
	is.crc = crc32c (0, target, (size_t)length);
	int error = batch_flush (drain);
	int to = error ? -1 : publish_parent (drain, path, &base);
	if (to < 0)
		return error ? error : errno;
	tree_part (base, part);
	journal_append (&drain->journal, RECORD_PART, path, NULL);
	tree_discard (to, part);
	if (symlinkat (target, to, part) < 0
	    || utimensat (to, part, times, AT_SYMLINK_NOFOLLOW) < 0
	    || fstatat (to, part, &made, AT_SYMLINK_NOFOLLOW) < 0)
		error = errno;
	is.copy = error ? 0 : made.st_ino;
	if (error == 0)
		error = publish_part (drain, path, to, base, &is);
	if (error)
		unlinkat (to, part, 0);
	else
		drain->published++;
	close (to);
	return error;
}

int
publish (struct drain *drain, struct item *item, int *taken)
{
	const char *base, *path = item->path;
	struct stat found;
	int reason, parent = tree_parent (drain->from, path, &base);

	*taken = 0;
	if (parent < 0)
		return tree_is_absent (errno) ? remove_name (drain, path) : errno;
	if (fstatat (parent, base, &found, AT_SYMLINK_NOFOLLOW) < 0)
		reason = tree_is_absent (errno) ? remove_name (drain, path) : errno;
	else if (!publish_can (found.st_mode))
		reason = remove_name (drain, path);
	else if (strncmp (base, TREE_PART, strlen (TREE_PART)) == 0)
		reason = REASON_RESERVED;
	else if (S_ISDIR (found.st_mode))
		reason = publish_directory (drain, path, &found);
	else if (S_ISLNK (found.st_mode))
		reason = publish_link (drain, path, parent, base, &found);
	else
		reason = publish_file (drain, item, parent, base, &found, taken);
	close (parent);
	return reason;
}
