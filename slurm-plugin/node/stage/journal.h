/*
 * What the drainer has published, in a file of its own: an append-only list of
 * records, each with a checksum. A drainer that is started again goes on from there.
 *
 * A record is written before the change at the destination that it announces, and trusted
 * only as far as the copy's inode bears it out. What follows a damaged record is not read;
 * then, and without a journal, all is copied again, and nothing removed.
 */
#ifndef SLUICE_STAGE_JOURNAL_H
#define SLUICE_STAGE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "published.h"

enum record_type {
	RECORD_ROOTS = 1, /* the first: both directories, and the destination's inode */
	RECORD_PUT,	  /* this name becomes visible */
	RECORD_DROP,	  /* it was removed */
	RECORD_PART,	  /* its copy is under way below its temporary name */
	RECORD_NO_PARTS,  /* no copy is */
};

struct record {
	uint32_t crc; /* of all that follows, and the path */
	uint16_t type, length;
	struct identity is;
};

typedef void journal_take (void *data, enum record_type type, const char *path,
			   const struct identity *is);

/* Hands on what is whole; the bytes of that. */
size_t journal_parse (const void *bytes, size_t size, journal_take *take, void *data);

struct journal {
	const char *path; /* NULL: there is none */
	int fd;
	int64_t end;
	uint64_t records;
	uint8_t has_failed; /* and has been told */
};

enum journal_state { JOURNAL_NEW, JOURNAL_WHOLE, JOURNAL_DAMAGED, JOURNAL_UNUSABLE };
/* UNUSABLE: with errno. */
enum journal_state journal_open (struct journal *journal, const char *path,
				 journal_take *take, void *data);
/* Where it cannot be written, the drainer goes on without: that is told once. */
void journal_append (struct journal *journal, enum record_type type, const char *path,
		     const struct identity *is);
/* As short as the names need, in place of the old one: at the start and now and then. */
void journal_rewrite (struct journal *journal, const char *roots,
		      const struct identity *destination, const struct names *names);
int journal_is_long (const struct journal *journal, const struct names *names);

#endif
