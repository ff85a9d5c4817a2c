/*
 * What the texts of a submission tell: the arguments on its line, and what its script does.
 */
#ifndef SLUICE_SUBMIT_TEXT_H
#define SLUICE_SUBMIT_TEXT_H

#include "submission.h"

/* Larger numbers count as this one. */
extern const double sluice_largest_number;

/* Read the arguments off a submit line of `size` bytes. Its words stand between blanks, as
 * Slurm keeps it: nothing is quoted. */
void sluice_arguments_of (const char *line, size_t size, struct sluice_arguments *out);

/* Hash of the first 16 KiB of a job script without comments, blank lines and
 * trailing blanks; `#SBATCH` lines are comments. 0 for NULL or nothing left. */
uint64_t sluice_script_signature (const char *script, size_t size);

#endif
