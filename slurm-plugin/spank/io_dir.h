/*
 * The value of --io-dir.
 */
#ifndef SLUICE_IO_DIR_H
#define SLUICE_IO_DIR_H

#include "base.h"

enum { IO_DIR_SIZE = 1024 };

/* A path for a directory that does not exist yet: absolute, without `.` and `..`
 * as last part. `%j` stands for the job's id, `%%` for a percent sign. Trailing
 * slashes are dropped. out may be NULL. 0, or -1 for a text that makes no sense. */
int io_dir_parse (const char *text, uint32_t job_id, char out[IO_DIR_SIZE]);

#endif
