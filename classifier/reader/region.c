#define _DEFAULT_SOURCE /* madvise */

#include "region.h"

#include <libdeflate.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

enum { WORD = sizeof (uint64_t) };

#define PLACE(record, field) (offsetof (struct record, field) / WORD)

/* Version 3 of POSIX lacks these counters, 2 also two times, as older ones of MPI-IO do. */
#define NO_DUPS                                                                            \
	{                                                                                  \
		PLACE (darshan_posix, counters[POSIX_FILENOS]), 2                          \
	}
#define NO_RENAMES                                                                         \
	{                                                                                  \
		PLACE (darshan_posix, counters[POSIX_RENAME_SOURCES]), 3                   \
	}
#define NO_CLOSE(record)                                                                   \
	{                                                                                  \
		PLACE (record, times[POSIX_CLOSE_START_TIMESTAMP]), 2                      \
	}
/* Version 1 of POSIX counts streams too: opened, read, written and sought in. */
#define STREAMS                                                                            \
	{                                                                                  \
		PLACE (darshan_posix, counters[POSIX_FSYNCS]), -4                          \
	}
#define NO_FDOPENS                                                                         \
	{                                                                                  \
		PLACE (darshan_stdio, counters[STDIO_FDOPENS]), 1                          \
	}

static const struct form forms[] = {
	{ DARSHAN_POSIX, 4, sizeof (struct darshan_posix), { { 0 } }, 0 },
	{ DARSHAN_POSIX, 3, 664, { NO_DUPS, NO_RENAMES }, 0 },
	{ DARSHAN_POSIX, 2, 648, { NO_DUPS, NO_RENAMES, NO_CLOSE (darshan_posix) }, 0 },
	{ DARSHAN_POSIX,
	  1,
	  680,
	  { NO_DUPS, STREAMS, NO_RENAMES, NO_CLOSE (darshan_posix) },
	  8 * WORD },
	{ DARSHAN_MPIIO, 3, sizeof (struct darshan_mpiio), { { 0 } }, 0 },
	{ DARSHAN_MPIIO, 2, 544, { NO_CLOSE (darshan_mpiio) }, 0 },
	{ DARSHAN_MPIIO, 1, 544, { NO_CLOSE (darshan_mpiio) }, 0 },
	{ DARSHAN_STDIO, 2, sizeof (struct darshan_stdio), { { 0 } }, 0 },
	{ DARSHAN_STDIO, 1, 240, { NO_FDOPENS }, 0 },
};

const struct form *
form_find (int module, uint32_t version)
{
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (forms[i].module == module && forms[i].version == version)
			return &forms[i];
	return NULL;
}

void
swap_words (char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += WORD) {
		uint64_t word;
		memcpy (&word, bytes + i, WORD);
		word = __builtin_bswap64 (word);
		memcpy (bytes + i, &word, WORD);
	}
}

static int
counts_streams (const struct form *form, const char *stored)
{
	int64_t opened = 0;
	if (form->streams)
		memcpy (&opened, stored + form->streams, WORD);
	return opened > 0;
}

/* Copy what both have, and clear what the stored one lacks. */
static void
spread (const struct form *form, const char *stored, char *record)
{
	const char *end = stored + form->size;
	size_t made = 0; /* words of the record */
	for (int i = 0; i < FORM_GAPS && form->gaps[i].words; i++) {
		const struct gap *gap = &form->gaps[i];
		size_t same = (gap->place - made) * WORD;
		memcpy (record + made * WORD, stored, same);
		stored += same;
		made = gap->place;
		if (gap->words < 0) {
			stored += (size_t)-gap->words * WORD;
			continue;
		}
		memset (record + made * WORD, 0, (size_t)gap->words * WORD);
		made += (size_t)gap->words;
	}
	memcpy (record + made * WORD, stored, (size_t)(end - stored));
}

union darshan_record *
form_take (const struct form *form, char *stored, int swapped, union darshan_record *room)
{
	if (swapped)
		swap_words (stored, form->size);
	if (counts_streams (form, stored))
		return NULL;
	if (!form->gaps[0].words)
		return (union darshan_record *)(void *)stored;
	spread (form, stored, (char *)room);
	return room;
}

enum {
	COMPRESSED_BY_ZLIB = 0,
	PIECE = 1 << 18,
	USUAL_ROOM = 1 << 23, /* a runtime keeps less, unless told otherwise */
};
static const size_t most_room = 1ull << 32; /* the most records that are read need 3 GiB */

static int
damaged (struct region *region)
{
	return sluice_fail (region->err, "the %s are damaged", region->what);
}

static int
too_large (struct region *region)
{
	return sluice_fail (region->err, "reading it needs too much memory");
}

int
region_open (struct region *region, const struct sluice_library *library,
	     const struct darshan_handle *handle, struct sluice_error *err)
{
	*region = (struct region){ .library = library,
				   .err = err,
				   .file = handle->state->file,
				   .packed = handle->compression == COMPRESSED_BY_ZLIB,
				   .room = USUAL_ROOM,
				   .buffer = malloc (USUAL_ROOM + 1) };
	return region->buffer ? 0 : too_large (region);
}

void
region_close (struct region *region)
{
	free (region->input);
	free (region->buffer);
}

static int
load (struct region *region, void *bytes, size_t size)
{
	if (pread (region->file, bytes, size, (off_t)region->offset) != (ssize_t)size)
		return damaged (region);
	region->offset += size;
	return 0;
}

/* Whatever length the header tells, there is not more than the file. */
static int
load_packed (struct region *region)
{
	struct stat file;
	if (fstat (region->file, &file) < 0 || region->left > (uint64_t)file.st_size)
		return damaged (region);
	if (region->left > region->input_room) {
		free (region->input);
		region->input = malloc (region->left);
		region->input_room = region->input ? region->left : 0;
		if (!region->input)
			return too_large (region);
	}
	region->next = region->input;
	return load (region, region->input, region->left);
}

int
region_start (struct region *region, struct darshan_region where, const char *what)
{
	region->what = what;
	region->offset = where.offset;
	region->left = where.length;
	region->bytes = region->buffer;
	region->size = region->rest = 0;
	return region->packed ? load_packed (region) : 0;
}

static int
load_stored (struct region *region)
{
	size_t size = region->left < PIECE ? (size_t)region->left : PIECE;
	if (load (region, region->bytes + region->rest, size) < 0)
		return -1;
	region->left -= size;
	region->rest += size;
	return 0;
}

static int
double_room (struct region *region)
{
	char *larger = NULL;
	if (region->room < most_room)
		larger = realloc (region->buffer, 2 * region->room + 1);
	if (!larger)
		return too_large (region);
	region->buffer = region->bytes = larger;
	region->room *= 2;
	return 0;
}

static int
unpack_stream (struct region *region)
{
	size_t used, got;
	enum libdeflate_result result;
	while ((result = libdeflate_zlib_decompress_ex (
		    region->library->unpacker, region->next, region->left,
		    region->bytes + region->rest, region->room - region->rest, &used, &got))
	       == LIBDEFLATE_INSUFFICIENT_SPACE)
		if (double_room (region) < 0)
			return -1;
	if (result != LIBDEFLATE_SUCCESS)
		return damaged (region);
	region->next += used;
	region->left -= used;
	region->rest += got;
	return 0;
}

/* Pages of a giant stream are freed once they were taken: its rows need as many. */
static void
give_back (const struct region *region, size_t taken)
{
	if (region->room == USUAL_ROOM)
		return;
	uintptr_t page = (uintptr_t)sysconf (_SC_PAGESIZE);
	uintptr_t end = (uintptr_t)region->bytes & -page;
	uintptr_t start = ((uintptr_t)region->bytes - taken + page - 1) & -page;
	if (start < end)
		madvise ((void *)start, end - start, MADV_DONTNEED);
}

/* Have a whole piece, if there is one left. */
static int
refill (struct region *region)
{
	memmove (region->buffer, region->bytes, region->rest);
	region->bytes = region->buffer;
	while (region->rest < PIECE && region->left > 0)
		if ((region->packed ? unpack_stream (region) : load_stored (region)) < 0)
			return -1;
	return 0;
}

int
region_read (struct region *region, size_t taken)
{
	region->bytes += taken;
	region->rest -= taken;
	give_back (region, taken);
	size_t before = region->rest;
	if (region->rest < PIECE && region->left > 0 && refill (region) < 0)
		return -1;
	if (region->rest == 0)
		return 0;
	if (taken == 0 && region->rest == before)
		return damaged (region);
	region->size = region->rest < PIECE ? region->rest : PIECE;
	return 1;
}
