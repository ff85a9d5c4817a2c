/*
 * SipHash-2-4 (Aumasson, Bernstein, INDOCRYPT 2012): without the key one can neither
 * guess a digest nor make two texts of one. It authenticates messages, too.
 */
#ifndef SLUICE_SIPHASH_H
#define SLUICE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash (const uint64_t key[2], const unsigned char *bytes, size_t size);

#endif
