/*
 * Every version of the records that are of one size, made the newest, which darshan.h
 * declares.
 *
 * The library does so too, a record a call. It leaves times of the other byte order as they
 * are (POSIX before version 4), and loses the slowest process's time (POSIX version 2).
 */
#ifndef SLUICE_FORMS_H
#define SLUICE_FORMS_H

#include "darshan.h"

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
const union darshan_record *form_take (const struct form *form, char *stored, int swapped,
				       union darshan_record *room);

#endif
