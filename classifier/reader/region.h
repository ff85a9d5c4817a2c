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

struct sluice_error;

struct region {
	const struct sluice_library *library;
	struct sluice_error *err;
	const char *what; /* its content, for errors */
	int file;
	int packed;	       /* or stored as it is */
	uint64_t offset, left; /* in the file, not yet read or unpacked */
	/* All of a packed region: only who unpacks a stream sees where it ends. */
	unsigned char *input;
	size_t input_room;
	const unsigned char *next; /* not yet unpacked */
	char *buffer;
	size_t room;
	/* Unpacked and not taken. Who terminates a text may write one byte behind it. */
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
