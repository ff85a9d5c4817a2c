#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drain.h"

int
batch_has (const struct drain *drain, const char *path, uint64_t inode)
{
	for (uint32_t i = 0; i < drain->batch_count; i++)
		if (drain->batch[i].is.inode == inode
		    || strcmp (drain->batch[i].item->path, path) == 0)
			return 1;
	return 0;
}

static void
discard_part (struct drain *drain, const char *path)
{
	char part[NAME_MAX + 1];
	const char *base;
	int parent = tree_parent (drain->to, path, &base);
	if (parent < 0)
		return;
	tree_part (base, part);
	tree_discard (parent, part);
	close (parent);
}

/* Size and times again: else what was copied is no longer what the name stands for. */
static int
is_as_copied (const struct drain *drain, const struct copied *copied)
{
	struct stat found;
	if (tree_stat (drain->from, copied->item->path, &found) < 0)
		return 0;
	struct identity is = identity_of (&found);
	return is.inode == copied->is.inode && is.kind == KIND_FILE
	       && is.size == copied->is.size && is.mtime == copied->is.mtime;
}

/* The other names of the local file have an older copy now. */
static void
add_other_names (struct drain *drain, const char *path, const struct identity *is)
{
	struct name *name = names_of_inode (&drain->names, is->inode);
	for (; name; name = names_next (name))
		if (name->is.kind == KIND_FILE && name->is.copy != is->copy
		    && strcmp (name->path, path) != 0) {
			name->is_stale = 1;
			drain_add (drain, name->path, 0);
		}
}

static int
make_visible (struct drain *drain, const struct copied *copied)
{
	const char *base, *path = copied->item->path;
	struct stat there;
	char part[NAME_MAX + 1];
	int error = 0, parent = tree_parent (drain->to, path, &base);

	if (parent < 0)
		return errno;
	tree_part (base, part);
	if (fstatat (parent, part, &there, AT_SYMLINK_NOFOLLOW) < 0)
		error = errno;
	else if (there.st_ino != copied->is.copy || there.st_size != copied->is.size)
		error = EIO;
	else
		error = publish_part (drain, path, parent, base, &copied->is);
	close (parent);
	if (error == 0)
		add_other_names (drain, path, &copied->is);
	return error;
}

/* 0: seen to, or changed meanwhile and waits again. */
static int
finish (struct drain *drain, struct copied *copied, int error)
{
	if (error == 0 && is_as_copied (drain, copied)) {
		error = make_visible (drain, copied);
		if (error == 0) {
			drain->published++;
			free (copied->item);
			return 0;
		}
	}
	discard_part (drain, copied->item->path);
	drain_later (drain, copied->item, error ? error : REASON_CHANGED);
	return error;
}

int
batch_flush (struct drain *drain)
{
	struct copied batch[BATCH_FILES];
	uint32_t count = drain->batch_count;
	int first = 0;

	if (count == 0)
		return 0;
	memcpy (batch, drain->batch, sizeof batch);
	drain->batch_count = 0;
	drain->batch_bytes = 0;
	if (drain->batch_has_unsynced && syncfs (drain->to) < 0)
		first = errno;
	drain->batch_has_unsynced = 0;
	int failed = first;
	for (uint32_t i = 0; i < count; i++) {
		int error = finish (drain, &batch[i], first);
		failed = failed ? failed : error;
	}
	journal_append (&drain->journal, RECORD_NO_PARTS, "", NULL);
	return failed;
}
