/*
 * The names that the drainer has published, by path and by inode of the local file.
 *
 * A name is what the journal remembers: which local file it was, its content, and the
 * inode of the copy, by which a copy is known to be the drainer's own.
 */
#ifndef SLUICE_STAGE_PUBLISHED_H
#define SLUICE_STAGE_PUBLISHED_H

#include <stdint.h>
#include <sys/stat.h>

#include "table.h"

enum kind { KIND_FILE = 1, KIND_LINK, KIND_DIRECTORY };

struct identity {
	uint64_t inode; /* of the local file */
	int64_t size;
	int64_t mtime, ctime; /* ns */
	uint64_t copy;	      /* inode at the destination; 0: was there before */
	uint64_t before;      /* that of the copy which this one takes the place of */
	uint32_t crc;	      /* of the content, see content.h */
	uint32_t kind;
};

struct name {
	struct link by_path, by_inode;
	struct identity is;
	uint32_t scan;	  /* the last one that met it */
	uint8_t is_stale; /* its copy is not what the local file is now */
	char path[];
};

struct names {
	struct table by_path, by_inode;
};

struct identity identity_of (const struct stat *found);
/* Same local file, unchanged as far as its metadata tell. */
int identity_same (const struct identity *a, const struct identity *b);

struct name *names_find (const struct names *names, const char *path);
/* Those of a local file: name_of_inode (...), then names_next. */
struct name *names_of_inode (const struct names *names, uint64_t inode);
struct name *names_next (const struct name *name);
struct name *names_put (struct names *names, const char *path, const struct identity *is);
void names_drop (struct names *names, struct name *name);
/* All, in no order; the caller frees the array. */
struct name **names_all (const struct names *names);

#endif
