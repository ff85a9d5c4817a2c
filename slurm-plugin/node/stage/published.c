#include "published.h"

#include <stdlib.h>
#include <string.h>

static int64_t
ns (struct timespec time)
{
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

struct identity
identity_of (const struct stat *found)
{
	return (struct identity){
		.inode = found->st_ino,
		.size = S_ISDIR (found->st_mode) ? 0 : found->st_size,
		.mtime = ns (found->st_mtim),
		.ctime = ns (found->st_ctim),
		.kind = S_ISDIR (found->st_mode)   ? KIND_DIRECTORY
			: S_ISLNK (found->st_mode) ? KIND_LINK
						   : KIND_FILE,
	};
}

/* What a directory contains is not its own. */
int
identity_same (const struct identity *a, const struct identity *b)
{
	if (a->inode != b->inode || a->kind != b->kind)
		return 0;
	return a->kind == KIND_DIRECTORY
	       || (a->size == b->size && a->mtime == b->mtime && a->ctime == b->ctime);
}

struct name *
names_find (const struct names *names, const char *path)
{
	struct link *link = table_first (&names->by_path, hash_text (path));
	for (; link; link = table_next (link)) {
		struct name *name = CONTAINER (link, struct name, by_path);
		if (strcmp (name->path, path) == 0)
			return name;
	}
	return NULL;
}

static struct name *
with_inode (struct link *link, uint64_t inode)
{
	for (; link; link = table_next (link)) {
		struct name *name = CONTAINER (link, struct name, by_inode);
		if (name->is.inode == inode)
			return name;
	}
	return NULL;
}

struct name *
names_of_inode (const struct names *names, uint64_t inode)
{
	return with_inode (table_first (&names->by_inode, hash_number (inode)), inode);
}

struct name *
names_next (const struct name *name)
{
	return with_inode (table_next (&name->by_inode), name->is.inode);
}

struct name *
names_put (struct names *names, const char *path, const struct identity *is)
{
	struct name *name = names_find (names, path);
	if (!name) {
		name = need (calloc (1, sizeof *name + strlen (path) + 1));
		strcpy (name->path, path);
		table_add (&names->by_path, &name->by_path, hash_text (path));
	} else {
		table_remove (&names->by_inode, &name->by_inode);
	}
	table_add (&names->by_inode, &name->by_inode, hash_number (is->inode));
	name->is = *is;
	name->is_stale = 0;
	return name;
}

void
names_drop (struct names *names, struct name *name)
{
	table_remove (&names->by_path, &name->by_path);
	table_remove (&names->by_inode, &name->by_inode);
	free (name);
}

struct name **
names_all (const struct names *names)
{
	struct name **all
	    = need (malloc ((names->by_path.count + 1) * sizeof (struct name *)));
	size_t count = 0;
	for (size_t i = 0; i < names->by_path.size; i++)
		for (struct link *link = names->by_path.slots[i]; link; link = link->next)
			all[count++] = CONTAINER (link, struct name, by_path);
	all[count] = NULL;
	return all;
}
