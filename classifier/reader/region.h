/*
 * The bytes of one region of a log after the other, unpacked.
 *
 * The library unpacks a record a call with zlib, and for the names of files it clears 4 MiB
 * a log and makes four allocations a name. Here libdeflate unpacks what a process wrote, a
 * stream, at once, in a third of zlib's time. It cannot tell before how much a stream
 * gives: one that does not fit is unpacked again with twice the room.
 */
#ifndef SLUICE_REGION_H
#define SLUICE_REGION_H

#include "darshan.h"

/*
 * Every version of the records that are of one size, made the newest, which darshan.h
 * declares.
 *
 * The library does so too, a record a call. It leaves times of the other byte order as they
 * are (POSIX before version 4), and loses the slowest process's time (POSIX version 2).
 */

enum { FORM_GAPS = 4 };

/* Where a version differs from the newest: words that it lacks, or has besides (negative).
 */
struct gap {
	size_t place; /* in the newest */
	int words;    /* of 64 bits, which is all that a record consists of */
};

/* A version of a module's records. */
struct form {
	int module;
	uint32_t version;
	size_t size; /* bytes of a stored record */
	struct gap gaps[FORM_GAPS];
	/* Byte at which it counts the streams that were opened; 0: they have a module. */
	size_t streams;
};

/* Return NULL for a version that is not known. */
const struct form *form_find (int module, uint32_t version);

/* Return a stored record, which lies where a word may, made the newest: turned to this
 * machine's byte order where it is stored, and copied into `room` where its version
 * differs; what that lacks is 0. NULL: leave it out, its counters are of files and of
 * streams together. */
union darshan_record *form_take (const struct form *form, char *stored, int swapped,
				 union darshan_record *room);

/* Turn a record of words from the other byte order. */
void swap_words (char *bytes, size_t size);

struct sluice_error;

struct region {
	const struct sluice_library *library;
	struct sluice_error *err;
	const char *what; /* its content, for errors */
	int file;
	int packed;	       /* or stored as it is */
	uint64_t offset, left; /* in the file, not yet read or unpacked */
	/* All of a packed region: only unpacking a stream shows where it ends. */
	unsigned char *input;
	size_t input_room;
	const unsigned char *next; /* not yet unpacked */
	char *buffer;
	size_t room;
	/* Unpacked and not taken. One byte behind it may be written, to terminate a text.
	 */
	char *bytes;
	size_t size; /* of the piece that is handed out */
	size_t rest; /* and of what follows it */
};

/* Prepare for the regions of an open log. 0, or -1 and a reason; to be closed either way.
 */
int region_open (struct region *region, const struct sluice_library *library,
		 const struct darshan_handle *handle, struct sluice_error *err);
void region_close (struct region *region);

/* Begin with a region. 0, or -1 and a reason, which says `what` is damaged. */
int region_start (struct region *region, struct darshan_region where, const char *what);
/* Read on, after so many of the bytes were taken. 1; 0: all were; -1 and a reason: damaged,
 * or some are left over at the end, or nothing of a whole piece was taken. */
int region_read (struct region *region, size_t taken);

#endif
