/*
 * One Darshan log, read through libdarshan-util and added up file by file.
 *
 * The library is not linked: it comes with the `darshan` wheel under a name of its own, so
 * it is loaded by path, and what of it is used is declared in darshan.h. Its record loop
 * reads every format from 3.00 on in either byte order; DXT traces are never asked for,
 * since no counter needs them and they can exhaust memory.
 *
 * Whatever the library says is checked before it is believed. It may still crash or hang
 * on a damaged log: callers keep it in a process of its own.
 */
#ifndef SLUICE_READER_H
#define SLUICE_READER_H

#include "base.h"

enum {
	SLUICE_EXE_SIZE = 4096,
	SLUICE_SIZE_BINS
	= 10, /* Darshan's histogram of access sizes: to 100 B ... over 1 GiB */
	SLUICE_ACCESSES = 4,	    /* sizes that it counts of each file */
	SLUICE_TARGET_WORDS = 1024, /* of 64 bits: numbers of Lustre targets have 16 */
};

/* Which modules told of a file: bits of sluice_file_row.modules. */
enum {
	SLUICE_FROM_POSIX = 1,
	SLUICE_FROM_STDIO = 2,
	SLUICE_FROM_MPIIO = 4,
};

/*
 * One file as one process saw it, or as all together (owner -1). Counts are doubles: sums
 * that cannot overflow, in the type that is computed with. What the log's format did not
 * have yet counts 0. Times are seconds from the job's start, sizes bytes.
 */
struct sluice_file_row {
	uint64_t id;	 /* Darshan's hash of the name */
	int64_t owner;	 /* rank; -1: shared */
	uint64_t stem;	 /* hash of a written file's name without its numbers; 0: no name */
	int64_t modules; /* SLUICE_FROM_... */
	int64_t program; /* 1: only read, and by its name a part of a program */
#define SUM(module, counter, field) double field;
#define LARGEST(module, counter, bytes, field) double field;
#define SECONDS SUM
#define FIRST SUM
#define LAST SUM
#define SLUICE_POSIX
#define SLUICE_STDIO
#define SLUICE_MPIIO
#include "file_row.def"
#undef SLUICE_POSIX
#undef SLUICE_STDIO
#undef SLUICE_MPIIO
#undef SUM
#undef LARGEST
#undef SECONDS
#undef FIRST
#undef LAST
	double posix_size_read[SLUICE_SIZE_BINS];
	double posix_size_write[SLUICE_SIZE_BINS];
	double posix_access[SLUICE_ACCESSES]; /* commonest sizes, reads and writes */
	double
	    posix_access_count[SLUICE_ACCESSES]; /* of the record that moved most bytes */
	double mpiio_size_write_agg[SLUICE_SIZE_BINS];
	double posix_strides; /* forward jumps over one of the commonest distances */
	double stripe_count;  /* Lustre targets of the file; 0: not known */
};

struct sluice_log {
	char format[8];
	char exe[SLUICE_EXE_SIZE];
	int64_t uid;
	int64_t jobid;
	int64_t nprocs;
	double start; /* UTC seconds */
	double end;
	double runtime;	  /* seconds */
	uint64_t modules; /* bits by Darshan's module number */
	uint64_t partial; /* those that ran out of memory for records */
	int64_t row_count;
	struct sluice_file_row *rows; /* without standard streams; order of first sight */
	/* SLUICE_TARGET_WORDS words, a bit for each Lustre target that a file lies on;
	 * NULL: not known. */
	uint64_t *targets;
	/* Bytes of all processes by time bin from the start, each byte seen once; no bins:
	 * there is no heatmap. */
	double bin_seconds;
	int64_t bins;
	double *bins_written;
	double *bins_read;
};

/* Load libdarshan-util. Returns NULL and a reason when it is not the one known here. */
struct sluice_library *sluice_library_load (const char *path, struct sluice_error *err);
void sluice_library_unload (struct sluice_library *library);

/* Read one log; 0, or -1 and a reason without the log's name. Free it in either case, or
 * take the rows, set them to NULL here and free them later. */
int sluice_log_read (const struct sluice_library *library, const char *path,
		     struct sluice_log *log, struct sluice_error *err);
void sluice_log_free (struct sluice_log *log);
void sluice_rows_free (struct sluice_file_row *rows);

/* What there is no reader without: open, job, the records of the same modules, close. The
 * measure of speed in `make bench`. Returns the number of records, or -1. */
int64_t sluice_log_scan (const struct sluice_library *library, const char *path);

#endif
