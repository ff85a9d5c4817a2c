/*
 * What a user gave a script or a program: the words behind it on the submit line.
 *
 * They often say how much a job writes. Options of sbatch, srun and salloc are none.
 */
#ifndef SLUICE_ARGUMENTS_H
#define SLUICE_ARGUMENTS_H

#include "base.h"

enum {
	SLUICE_MAX_NUMBERS = 3,
	SLUICE_WORD_BUCKETS = 8, /* bits of sluice_arguments.words */
};

struct sluice_arguments {
	uint64_t hash; /* of all of them, also of none; 0: the line is not known */
	/* The first ones, of `16M` 16777216; 0: there is none. */
	double numbers[SLUICE_MAX_NUMBERS];
	uint32_t words; /* bit i: a word, its numbers aside, falls into bucket i */
	uint32_t count; /* words, as far as they are looked at */
};

/* Larger numbers count as this one. */
extern const double sluice_largest_number;

/* Read them off a submit line of `size` bytes. Its words stand between blanks, as Slurm
 * keeps it: nothing is quoted. */
void sluice_arguments_of (const char *line, size_t size, struct sluice_arguments *out);

#endif
