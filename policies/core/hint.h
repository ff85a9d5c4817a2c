/*
 * What users say of a job's I/O (--io-pattern, --io-chunk, --io-bytes), and how
 * far it counts: within half and double of what their own earlier runs did.
 *
 * A hint moves a number that was measured; it makes none up, changes no
 * confidence and no name of a pattern. So it cannot lead to a decision where
 * there would be none, and a wrong one is wrong by a factor of two.
 */
#ifndef SLUICE_HINT_H
#define SLUICE_HINT_H

#include "profile.h"

/* As they were given, whether they count or not. */
struct sluice_hints {
	uint32_t pattern; /* enum sluice_pattern; UNKNOWN: not given */
	uint32_t reserved;
	uint64_t chunk_bytes; /* of a typical read or write; 0: not given */
	uint64_t total_bytes; /* read and written in all; 0: not given */
};

enum sluice_hinted {
	SLUICE_HINTED_PATTERN = 1 << 0,
	SLUICE_HINTED_CHUNK = 1 << 1,
	SLUICE_HINTED_TOTAL = 1 << 2,
};

/* owc, ws, aw, read, metadata or none. 0, or -1 for a text that is none of them. */
int sluice_hint_pattern (const char *text, uint32_t *out);

/* A whole number of bytes from 1 to 2^60, perhaps with K, M, G or T behind it
 * (powers of 1024, in either case). 0, or -1 for a text that makes no sense. */
int sluice_hint_bytes (const char *text, uint64_t *out);

/* Let the hints count in a profile that the user's own runs are behind. Returns
 * enum sluice_hinted: those that did. */
uint32_t sluice_hints_apply (const struct sluice_hints *hints,
			     struct sluice_profile *profile);

#endif
