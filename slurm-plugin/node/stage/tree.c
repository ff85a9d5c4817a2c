#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table.h"

static int
enter (int directory, const char *part, size_t length)
{
	char name[NAME_MAX + 1];
	if (length > NAME_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy (name, part, length);
	name[length] = '\0';
	return openat (directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void
close_quietly (int fd)
{
	int error = errno;
	close (fd);
	errno = error;
}

int
tree_parent (int root, const char *path, const char **base)
{
	int at = fcntl (root, F_DUPFD_CLOEXEC, 0);
	const char *slash;

	while (at >= 0 && (slash = strchr (path, '/'))) {
		int next = enter (at, path, (size_t)(slash - path));
		close_quietly (at);
		at = next;
		path = slash + 1;
	}
	*base = path;
	return at;
}

int
tree_directory (int root, const char *path)
{
	const char *base;
	int parent = tree_parent (root, path, &base);
	if (parent < 0)
		return -1;
	int fd = openat (parent, *base ? base : ".",
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	close_quietly (parent);
	return fd;
}

int
tree_stat (int root, const char *path, struct stat *found)
{
	const char *base;
	int parent = tree_parent (root, path, &base);
	if (parent < 0)
		return -1;
	int result = fstatat (parent, base, found, AT_SYMLINK_NOFOLLOW);
	close_quietly (parent);
	return result;
}

int
tree_is_absent (int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

char **
tree_list (int root, const char *path)
{
	size_t count = 0, room = 16;
	int fd = tree_directory (root, path);
	DIR *directory = fd < 0 ? NULL : fdopendir (fd);
	if (!directory) {
		if (fd >= 0)
			close_quietly (fd);
		return NULL;
	}
	char **entries = need (malloc (room * sizeof (char *)));
	for (struct dirent *entry; errno = 0, entry = readdir (directory);) {
		if (strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0)
			continue;
		if (count + 1 == room)
			entries = need (realloc (entries, (room *= 2) * sizeof (char *)));
		entries[count++] = need (strdup (entry->d_name));
	}
	int error = errno;
	entries[count] = NULL;
	closedir (directory);
	if (error == 0)
		return entries;
	tree_free (entries);
	errno = error;
	return NULL;
}

void
tree_free (char **entries)
{
	for (char **entry = entries; entry && *entry; entry++)
		free (*entry);
	free (entries);
}

char *
tree_join (const char *directory, const char *entry)
{
	char *path = need (malloc (strlen (directory) + strlen (entry) + 2));
	sprintf (path, "%s%s%s", directory, *directory ? "/" : "", entry);
	return path;
}

void
tree_part (const char *base, char part[NAME_MAX + 1])
{
	if (strlen (TREE_PART) + strlen (base) <= NAME_MAX)
		sprintf (part, "%s%s", TREE_PART, base);
	else
		sprintf (part, "%s%016llx", TREE_PART,
			 (unsigned long long)hash_text (base));
}

void
tree_discard (int directory, const char *part)
{
	if (unlinkat (directory, part, 0) < 0 && errno != ENOENT)
		unlinkat (directory, part, AT_REMOVEDIR);
}
