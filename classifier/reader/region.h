/*
 * The bytes of one region of a log, unpacked piece by piece.
 *
 * The library unpacks a record a call, and for the names of files it clears 4 MiB a log and
 * makes four allocations a name. Here zlib, the same that the library uses, unpacks many
 * records at once, and checksums are computed on whole pieces.
 */
#ifndef SLUICE_REGION_H
#define SLUICE_REGION_H

#include "darshan.h"

enum {
	REGION_PIECE = 1 << 15, /* bytes that are unpacked at once */
	REGION_PACKED = 1 << 14,
	REGION_CHECKSUM = 4,
};

struct region {
	const struct sluice_library *library;
	int file;
	int packed;	       /* or stored as it is */
	uint64_t offset, left; /* in the file, not yet read */
	int in_stream;	       /* a region is one stream or several, one behind the other */
	uint32_t checksum;
	int ended;
	size_t size; /* bytes that were unpacked and not taken */
	/* A piece, what the last one left over, and one for who terminates a text. */
	char bytes[2 * REGION_PIECE + 1];
	/* The bytes before those that were read last may be a part of a checksum. */
	unsigned char input[REGION_CHECKSUM + REGION_PACKED];
};

/* Begin with a region of an open log. */
void region_start (struct region *region, const struct sluice_library *library,
		   const struct darshan_handle *handle, struct darshan_region where);
/* Read on, after so many of the bytes were taken. 1; 0: all were; -1: damaged, or some are
 * left over at the end, or more than a piece before. */
int region_read (struct region *region, size_t taken);

#endif
