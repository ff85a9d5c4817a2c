#define _DEFAULT_SOURCE /* madvise */

#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vocabulary.h"

int
sluice_fail (struct sluice_error *err, const char *format, ...)
{
	if (err) {
		va_list args;
		va_start (args, format);
		vsnprintf (err->text, sizeof err->text, format, args);
		va_end (args);
	}
	return -1;
}

/* Called nine times a job: once in the cache serves all, nine copies of it would not. */
__attribute__ ((noinline)) void
sluice_copy_text (char *dst, size_t size, const char *src)
{
	size_t n = src ? strnlen (src, size - 1) : 0;
	if (n > 0)
		memcpy (dst, src, n);
	memset (dst + n, 0, size - n);
}

void *
sluice_allocate (size_t size)
{
	const size_t cache_line = 64, huge_page = 2 << 20, worth_one = huge_page / 8;
	void *memory = NULL;
	if (size < worth_one)
		return posix_memalign (&memory, cache_line, size) ? NULL : memory;
	size = (size + huge_page - 1) & ~(huge_page - 1);
	if (posix_memalign (&memory, huge_page, size) != 0)
		return NULL;
	madvise (memory, size, MADV_HUGEPAGE); /* where it fails, small ones do */
	return memory;
}

uint64_t
sluice_crc64 (const void *bytes, size_t size)
{
	/* Reflected ECMA-182 polynomial, eight bytes a step: tables[k] has the remainder of
	 * a byte that k zero bytes follow. The tables cost a few microseconds, and files
	 * are checked when they are loaded, not in a decision. */
	const uint64_t polynomial = 0xc96c5795d7870f42u;
	uint64_t tables[8][256];
	for (unsigned int i = 0; i < 256; i++) {
		uint64_t crc = i;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
		tables[0][i] = crc;
	}
	for (int k = 1; k < 8; k++)
		for (unsigned int i = 0; i < 256; i++) {
			uint64_t shorter = tables[k - 1][i];
			tables[k][i] = tables[0][shorter & 0xff] ^ shorter >> 8;
		}

	const unsigned char *p = bytes;
	uint64_t crc = ~(uint64_t)0;
	for (; size >= 8; p += 8, size -= 8) {
		uint64_t rest = 0;
		for (int k = 0; k < 8; k++)
			rest ^= tables[7 - k][(crc >> 8 * k ^ p[k]) & 0xff];
		crc = rest;
	}
	for (; size > 0; p++, size--)
		crc = tables[0][(crc ^ *p) & 0xff] ^ crc >> 8;
	return ~crc;
}

/* Eight bytes a step: a job script is hashed inside job_submit. The finisher is
 * MurmurHash3's; words are read as little-endian, as the file formats are. */
uint64_t
sluice_hash_bytes (const void *bytes, size_t size, uint64_t seed)
{
	const uint64_t multiplier = 0x9e3779b97f4a7c15u;
	const unsigned char *p = bytes;
	uint64_t hash = (seed ^ size) * multiplier;
	uint64_t word;
	for (; size >= sizeof word; p += sizeof word, size -= sizeof word) {
		memcpy (&word, p, sizeof word);
		hash = (hash ^ word) * multiplier;
		hash ^= hash >> 32;
	}
	word = 0;
	if (size > 0 && p != bytes) { /* with bytes that had their turn, shifted out */
		memcpy (&word, p + size - sizeof word, sizeof word);
		word >>= 8 * (sizeof word - size);
	} else {
		memcpy (&word, p, size);
	}
	hash = (hash ^ word) * multiplier;
	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
	return hash ^ hash >> 33;
}

uint64_t
sluice_hash_text (const char *text, uint64_t seed)
{
	return sluice_hash_bytes (text, strlen (text), seed);
}

#define NAME(name, json, text) json,
#define TEXT(name, json, text) text,

/* The two functions that read one of the lists back. */
#define WORDS(word, LIST)                                                                  \
	const char *sluice_##word##_name (unsigned int i)                                  \
	{                                                                                  \
		static const char *const names[] = { LIST (NAME) };                        \
		return i < sizeof names / sizeof names[0] ? names[i] : "?";                \
	}                                                                                  \
	const char *sluice_##word##_text (unsigned int i)                                  \
	{                                                                                  \
		static const char *const texts[] = { LIST (TEXT) };                        \
		return i < sizeof texts / sizeof texts[0] ? texts[i] : "?";                \
	}

WORDS (pattern, SLUICE_PATTERNS)
WORDS (class, SLUICE_CLASSES)
WORDS (action, SLUICE_ACTIONS)
WORDS (reason, SLUICE_REASONS)
WORDS (grant, SLUICE_GRANTS)
WORDS (turns_scope, SLUICE_TURNS_SCOPES)
WORDS (in_turns, SLUICE_IN_TURNS)
WORDS (evidence, SLUICE_EVIDENCE)
WORDS (ruling, SLUICE_RULINGS)
