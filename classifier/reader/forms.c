#include "forms.h"

#include <stddef.h>
#include <string.h>

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

static void
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

const union darshan_record *
form_take (const struct form *form, char *stored, int swapped, union darshan_record *room)
{
	if (swapped)
		swap_words (stored, form->size);
	if (counts_streams (form, stored))
		return NULL;
	if (!form->gaps[0].words)
		return (const union darshan_record *)(const void *)stored;
	spread (form, stored, (char *)room);
	return room;
}
