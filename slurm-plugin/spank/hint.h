/*
 * What users may say of a job's I/O. Each returns 0, or -1 for a text that makes
 * no sense.
 */
#ifndef SLUICE_HINT_H
#define SLUICE_HINT_H

#include "base.h"

enum { HINT_PATH_SIZE = 1024 };

/* owc, ws, aw, read, metadata or none; out gets the enum sluice_pattern. */
int hint_pattern (const char *text, uint32_t *out);

/* A whole number of bytes from 1 to 2^60, perhaps with K, M, G or T behind it
 * (powers of 1024, in either case). */
int hint_bytes (const char *text, uint64_t *out);

/* A path for a directory that does not exist yet: absolute, without `.` and `..`
 * as last part. `%j` stands for the job's id, `%%` for a percent sign. Trailing
 * slashes are dropped. out may be NULL. */
int hint_directory (const char *text, uint32_t job_id, char out[HINT_PATH_SIZE]);

#endif
