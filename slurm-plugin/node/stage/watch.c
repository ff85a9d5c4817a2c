#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "drain.h"

struct watch {
	struct link by_number;
	int number;
	char path[];
};

enum {
	WATCHED = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE
		  | IN_ATTRIB | IN_ONLYDIR | IN_EXCL_UNLINK
};

static struct watch *
find (const struct drain *drain, int number)
{
	struct link *link = table_first (&drain->watches, hash_number ((uint64_t)number));
	for (; link; link = table_next (link)) {
		struct watch *watch = CONTAINER (link, struct watch, by_number);
		if (watch->number == number)
			return watch;
	}
	return NULL;
}

static void
forget (struct drain *drain, int number)
{
	struct watch *watch = find (drain, number);
	if (!watch)
		return;
	table_remove (&drain->watches, &watch->by_number);
	free (watch);
}

/* A directory that was watched under another path keeps its number. */
static void
add (struct drain *drain, const char *path)
{
	char magic[64];
	int fd = tree_directory (drain->from, path);
	if (fd < 0)
		return;
	snprintf (magic, sizeof magic, "/proc/self/fd/%d", fd);
	int number = inotify_add_watch (drain->events, magic, WATCHED);
	close (fd);
	if (number < 0) {
		drain->is_blind = drain->has_missed = 1;
		return;
	}
	forget (drain, number);
	struct watch *watch = need (malloc (sizeof *watch + strlen (path) + 1));
	watch->number = number;
	strcpy (watch->path, path);
	table_add (&drain->watches, &watch->by_number, hash_number ((uint64_t)number));
}

/* ---- scans ---- */

struct found {
	char *path;
	int64_t mtime;
	int is_directory;
};

struct finds {
	struct found *all;
	size_t count, room;
};

/* Directories first, so that they can be written to; then by age. */
static int
by_age (const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	if (x->is_directory != y->is_directory)
		return y->is_directory - x->is_directory;
	return (x->mtime > y->mtime) - (x->mtime < y->mtime);
}

static void
push (struct finds *finds, char *path, const struct identity *is)
{
	if (finds->count == finds->room) {
		finds->room = finds->room ? 2 * finds->room : 64;
		finds->all = need (realloc (finds->all, finds->room * sizeof *finds->all));
	}
	finds->all[finds->count++]
	    = (struct found){ path, is->mtime, is->kind == KIND_DIRECTORY };
}

/* UnifyFS once called a shorter copy a success: so the copy is looked at, too. */
static int
has_copy (const struct drain *drain, const struct name *name)
{
	struct stat there;
	if (tree_stat (drain->to, name->path, &there) < 0)
		return 0;
	if (name->is.kind == KIND_DIRECTORY)
		return S_ISDIR (there.st_mode);
	return there.st_ino == name->is.copy
	       && (name->is.kind != KIND_FILE || there.st_size == name->is.size);
}

static int
differs (struct drain *drain, const char *path, const struct identity *is,
	 int checks_copies)
{
	struct name *name = names_find (&drain->names, path);
	if (!name)
		return 1;
	name->scan = drain->scan;
	if (checks_copies && !has_copy (drain, name))
		name->is_stale = 1;
	return name->is_stale || !identity_same (&name->is, is);
}

/* What is in there is not drained: that must not go unsaid. */
static void
note_unread (struct drain *drain, const char *path)
{
	if (tree_is_absent (errno) || drain->unread_error)
		return;
	drain->unread_error = errno;
	snprintf (drain->unread, sizeof drain->unread, "%s", path);
}

/* Watched first: what comes later is told by an event. */
static void
scan (struct drain *drain, const char *directory, struct finds *finds, int is_forced,
      int checks_copies)
{
	struct stat found;
	add (drain, directory);
	char **entries = tree_list (drain->from, directory);
	if (!entries)
		note_unread (drain, directory);
	for (char **entry = entries; entry && *entry; entry++) {
		char *path = tree_join (directory, *entry);
		int is_there = tree_stat (drain->from, path, &found) == 0;
		if (!is_there)
			note_unread (drain, path);
		if (!is_there || !publish_can (found.st_mode)) {
			free (path);
			continue;
		}
		struct identity is = identity_of (&found);
		int is_directory = is.kind == KIND_DIRECTORY;
		if (is_directory)
			scan (drain, path, finds, is_forced, checks_copies);
		if (differs (drain, path, &is, checks_copies)
		    || (is_forced && !is_directory))
			push (finds, path, &is);
		else
			free (path);
	}
	tree_free (entries);
}

static void
add_gone (struct drain *drain)
{
	struct name **all = names_all (&drain->names);
	for (struct name **name = all; *name; name++)
		if ((*name)->scan != drain->scan)
			drain_add (drain, (*name)->path, 0);
	free (all);
}

void
watch_scan (struct drain *drain, const char *path, int is_forced, int checks_copies)
{
	struct finds finds = { 0 };

	drain->scan++;
	if (!*path)
		drain->unread_error = 0;
	scan (drain, path, &finds, is_forced, checks_copies);
	if (finds.count)
		qsort (finds.all, finds.count, sizeof *finds.all, by_age);
	for (size_t i = 0; i < finds.count; i++) {
		drain_add (drain, finds.all[i].path, is_forced);
		free (finds.all[i].path);
	}
	free (finds.all);
	if (!*path)
		add_gone (drain);
}

/* ---- events ---- */

/* In memory, a mapped write leaves size and times as they were; two changes within a tick
 * of the kernel's clock, too. Files in a directory that moves keep their times, and what an
 * event has said of them was said of their old names. */
static void
handle (struct drain *drain, const struct inotify_event *event, char *path)
{
	int is_directory = (event->mask & IN_ISDIR) != 0;

	if (is_directory && event->mask & IN_ATTRIB)
		return; /* set in the end */
	drain_add (drain, path, (event->mask & (IN_CLOSE_WRITE | IN_ATTRIB)) != 0);
	if (is_directory && event->mask & (IN_CREATE | IN_MOVED_TO))
		watch_scan (drain, path, (event->mask & IN_MOVED_TO) != 0, 0);
}

/* The old name of what was moved goes behind the new one, which follows at once: then the
 * copy is moved, and not copied again. */
static char *
dispatch (struct drain *drain, const struct inotify_event *event, char *moved)
{
	struct watch *watch = find (drain, event->wd);
	char *path = watch && event->len ? tree_join (watch->path, event->name) : NULL;

	if (event->mask & IN_Q_OVERFLOW)
		drain->must_scan = drain->has_missed = 1;
	if (event->mask & IN_IGNORED)
		forget (drain, event->wd);
	int is_from = path && event->mask & IN_MOVED_FROM;
	if (path && !is_from)
		handle (drain, event, path);
	if (moved)
		drain_add (drain, moved, 0);
	free (moved);
	if (is_from)
		return path;
	free (path);
	return NULL;
}

void
watch_read (struct drain *drain)
{
	static _Alignas(struct inotify_event) char buffer[1 << 16];
	ssize_t got;

	while (drain->events >= 0
	       && (got = read (drain->events, buffer, sizeof buffer)) > 0) {
		char *moved = NULL;
		for (char *at = buffer; at < buffer + got;) {
			const struct inotify_event *event = (const void *)at;
			moved = dispatch (drain, event, moved);
			at += sizeof *event + event->len;
		}
		if (moved)
			drain_add (drain, moved, 0);
		free (moved);
	}
}

void
watch_start (struct drain *drain)
{
	drain->events = inotify_init1 (IN_CLOEXEC | IN_NONBLOCK);
	if (drain->events < 0)
		drain->is_blind = drain->has_missed = 1;
}
