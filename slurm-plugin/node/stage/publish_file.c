#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "content.h"
#include "drain.h"
#include "lease.h"

/* Where there are no leases, a file counts as finished so long after its last change. */
enum { QUIET_S = 5 };

/* The path's own copy first: else there would be two of one file. */
static struct name *
matching (const struct drain *drain, const char *path, const struct identity *is,
	  int compares_crc)
{
	struct name *found = NULL;
	struct name *name = names_of_inode (&drain->names, is->inode);
	for (; name; name = names_next (name)) {
		if (name->is_stale || name->is.kind != KIND_FILE
		    || name->is.size != is->size || name->is.mtime != is->mtime
		    || (compares_crc ? name->is.crc != is->crc
				     : name->is.ctime != is->ctime))
			continue;
		if (strcmp (name->path, path) == 0)
			return name;
		found = name;
	}
	return found;
}

static int
may_match (const struct drain *drain, const struct identity *is)
{
	struct name *name = names_of_inode (&drain->names, is->inode);
	for (; name; name = names_next (name))
		if (!name->is_stale && name->is.kind == KIND_FILE
		    && name->is.size == is->size && name->is.mtime == is->mtime)
			return 1;
	return 0;
}

/* Mode and attributes of a copy that is there. ENOENT: it is not. */
static int
renew_attributes (struct drain *drain, const struct name *name, int in, mode_t mode)
{
	const char *base;
	struct stat there;
	int parent = tree_parent (drain->to, name->path, &base);
	if (parent < 0)
		return errno;
	int out = openat (parent, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int error = out < 0 ? errno : 0;
	close (parent);
	if (error)
		return error;
	if (fstat (out, &there) < 0)
		error = errno;
	else if (there.st_ino != name->is.copy || there.st_size != name->is.size)
		error = ENOENT;
	else if (fchmod (out, (mode & 07777) | 0600) < 0)
		error = errno;
	if (error == 0)
		error = content_attributes (in, out);
	if (error == 0 && fchmod (out, mode & 07777) < 0)
		error = errno;
	close (out);
	return error;
}

/* A second name at the destination for a copy that is there. Not 0: it cannot be had. */
static int
link_copy (struct drain *drain, const char *path, const struct name *copy,
	   const struct identity *is)
{
	char part[NAME_MAX + 1];
	const char *base, *old_base;
	struct stat there;
	int error = batch_flush (drain);
	int to = error ? -1 : publish_parent (drain, path, &base);
	if (to < 0)
		return error ? error : errno;
	int old = tree_parent (drain->to, copy->path, &old_base);
	tree_part (base, part);
	journal_append (&drain->journal, RECORD_PART, path, NULL);
	tree_discard (to, part);
	if (old < 0 || linkat (old, old_base, to, part, 0) < 0
	    || fstatat (to, part, &there, AT_SYMLINK_NOFOLLOW) < 0)
		error = errno;
	else if (there.st_ino != is->copy || there.st_size != is->size)
		error = ENOENT;
	if (error == 0)
		error = publish_part (drain, path, to, base, is);
	if (error)
		unlinkat (to, part, 0);
	if (old >= 0)
		close (old);
	close (to);
	return error;
}

/* The content is at the destination already: a rename, a link, or other attributes. */
static int
adopt (struct drain *drain, const char *path, struct name *match, struct identity *is,
       int in, mode_t mode)
{
	is->crc = match->is.crc;
	is->copy = match->is.copy;
	int error = renew_attributes (drain, match, in, mode);
	if (error == 0 && strcmp (match->path, path) != 0)
		error = link_copy (drain, path, match, is);
	if (error)
		return error;
	struct name *name = names_of_inode (&drain->names, is->inode);
	for (; name; name = names_next (name))
		if (name->is.kind == KIND_FILE && name->is.copy == is->copy
		    && name->is.ctime != is->ctime) {
			name->is.ctime = is->ctime;
			journal_append (&drain->journal, RECORD_PUT, name->path, &name->is);
		}
	return 0;
}

static int
write_part (struct drain *drain, int in, int out, const struct stat *found,
	    struct identity *is)
{
	const struct content content = { in, out, is->size, drain_between, drain };
	const struct timespec times[2] = { found->st_atim, found->st_mtim };
	struct stat made;

	int reason = content_pass (&content, &is->crc);
	if (reason)
		return reason;
	if (ftruncate (out, is->size) < 0)
		return errno;
	reason = content_attributes (in, out);
	if (reason)
		return reason;
	if (fchmod (out, found->st_mode & 07777) < 0 || futimens (out, times) < 0
	    || fstat (out, &made) < 0)
		return errno;
	int is_elsewhere = made.st_dev != drain->destination.st_dev;
	if ((is->size > SMALL_BYTES || is_elsewhere) && fsync (out) < 0)
		return errno;
	drain->batch_has_unsynced |= is->size <= SMALL_BYTES;
	is->copy = made.st_ino;
	return made.st_size == is->size ? 0 : EIO;
}

/* After the last byte was read: was all of it one content? */
static int
has_changed (int in, const struct identity *is)
{
	struct stat found;
	if (lease_is_broken () || fstat (in, &found) < 0)
		return 1;
	struct identity now = identity_of (&found);
	return now.size != is->size || now.mtime != is->mtime;
}

static int
copy (struct drain *drain, struct item *item, int in, const struct stat *found,
      struct identity *is)
{
	char part[NAME_MAX + 1];
	const char *base;
	int to = publish_parent (drain, item->path, &base);
	if (to < 0)
		return errno;
	tree_part (base, part);
	journal_append (&drain->journal, RECORD_PART, item->path, NULL);
	tree_discard (to, part);
	int out
	    = openat (to, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int reason = out < 0 ? errno : write_part (drain, in, out, found, is);
	if (out >= 0 && close (out) < 0 && reason == 0)
		reason = errno;
	if (reason == 0 && has_changed (in, is))
		reason = REASON_CHANGED;
	if (reason)
		unlinkat (to, part, 0);
	close (to);
	return reason;
}

static int
batch_add (struct drain *drain, struct item *item, const struct identity *is)
{
	if (drain->batch_count == 0)
		drain->batch_since = now_ns ();
	drain->batch[drain->batch_count++] = (struct copied){ item, *is };
	drain->batch_bytes += is->size;
	if (drain->batch_count == BATCH_FILES || drain->batch_bytes >= BATCH_BYTES
	    || is->size > SMALL_BYTES)
		batch_flush (drain); /* its items wait again where it fails */
	return 0;
}

/* The file is open, and its lease granted. */
static int
publish_open (struct drain *drain, struct item *item, int in, const struct stat *found,
	      int *taken)
{
	struct identity is = identity_of (found);
	struct name *match = item->is_forced ? NULL : matching (drain, item->path, &is, 0);
	int reason = 0;

	if (!match && may_match (drain, &is)) {
		const struct content content = { in, -1, is.size, drain_between, drain };
		reason = content_pass (&content, &is.crc);
		if (reason == 0 && has_changed (in, &is))
			reason = REASON_CHANGED;
		if (reason)
			return reason;
		match = matching (drain, item->path, &is, 1);
	}
	if (match && adopt (drain, item->path, match, &is, in, found->st_mode) == 0)
		return 0;
	reason = copy (drain, item, in, found, &is);
	if (reason)
		return reason;
	*taken = 1;
	lease_drop ();
	return batch_add (drain, item, &is);
}

static int
is_quiet (const struct drain *drain, const struct stat *found)
{
	struct timespec now;
	clock_gettime (CLOCK_REALTIME, &now);
	return drain->is_ending
	       || (now.tv_sec - found->st_mtim.tv_sec >= QUIET_S
		   && now.tv_sec - found->st_ctim.tv_sec >= QUIET_S);
}

int
publish_file (struct drain *drain, struct item *item, int parent, const char *base,
	      const struct stat *seen, int *taken)
{
	struct identity is = identity_of (seen);
	struct stat found;

	/* Of a file of several names, one copy has to be seen by the others. */
	if (seen->st_nlink > 1 || batch_has (drain, item->path, seen->st_ino)
	    || names_of_inode (&drain->names, seen->st_ino)) {
		int error = batch_flush (drain);
		if (error)
			return error;
	}
	struct name *name = names_find (&drain->names, item->path);
	if (name && !item->is_forced && !name->is_stale && identity_same (&name->is, &is))
		return 0;
	int in = openat (parent, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0)
		return tree_is_absent (errno) ? REASON_CHANGED : errno;
	enum lease_result lease = lease_take (in);
	int reason = 0;
	if (fstat (in, &found) < 0 || !S_ISREG (found.st_mode) || found.st_nlink == 0)
		reason = REASON_CHANGED;
	else if (lease == LEASE_REFUSED
		 || (lease == LEASE_UNKNOWN && !is_quiet (drain, &found)))
		reason = REASON_OPEN;
	if (reason == 0)
		reason = publish_open (drain, item, in, &found, taken);
	lease_drop ();
	close (in);
	return reason;
}
