/*
 * One Darshan log, read through libdarshan-util, added up file by file, and measured.
 *
 * The library is not linked: it comes with the `darshan` wheel under a name of its own, so
 * it is loaded by path, and what of it is used is declared in darshan.h. It finds its way
 * through every format from 3.00 on; records and names are unpacked and taken apart here
 * (region.h). DXT traces are never asked for, since no counter needs
 * them and they can exhaust memory.
 *
 * Everything in a log is checked before it is used. The library may still crash or hang
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
	SLUICE_NOTE_SIZE = 64,	    /* a counter's name, with its end */
	SLUICE_NOTES_SIZE = 1024,
};

/* Which modules told of a file: bits of sluice_file_row.modules. */
enum {
	SLUICE_FROM_POSIX = 1,
	SLUICE_FROM_STDIO = 2,
	SLUICE_FROM_MPIIO = 4,
	SLUICE_FROM_ABOVE = 8, /* its bytes are told by a layer above these alone; they
				  stand in the fields of POSIX */
};

/*
 * One file as one process saw it, or as all together (owner -1): sums over its records.
 * Counts are in the type that is computed with, which cannot overflow; of histograms seven
 * digits are enough. What the log's format did not have yet counts 0. Times are seconds
 * from the job's start, sizes bytes. Rows are kept narrow: memory is what a record costs.
 */
struct sluice_file_row {
	uint64_t id;	 /* Darshan's hash of the name */
	int64_t owner;	 /* rank; -1: shared */
	uint64_t stem;	 /* hash of a written file's name without its numbers; 0: no name */
	int64_t modules; /* SLUICE_FROM_... */
	int64_t program; /* 1: only read, and by its name a part of a program */
	double posix_opens;
	double posix_opens_on_top; /* of these: streams on descriptors, and duplicates */
	double posix_reads;
	double posix_writes;
	double posix_seeks;
	double posix_stats;
	double posix_flushes; /* fsync and fdatasync */
	double posix_renames; /* from this name or to it */
	double posix_bytes_read;
	double posix_bytes_written;
	double posix_consec_writes;
	double posix_seq_writes;
	double posix_turns;   /* from reading to writing, or back */
	double posix_strides; /* forward jumps over one of the commonest distances */
	double posix_access[SLUICE_ACCESSES];	   /* commonest sizes, reads and writes */
	float posix_access_count[SLUICE_ACCESSES]; /* of the record that moved most bytes */
	float posix_size_read[SLUICE_SIZE_BINS];
	float posix_size_write[SLUICE_SIZE_BINS];
	double stdio_opens;
	double stdio_fdopens;
	double stdio_reads;
	double stdio_writes;
	double stdio_bytes_read;
	double stdio_bytes_written;
	double mpiio_bytes_written;
	double mpiio_coll_writes; /* split ones too */
	double mpiio_indep_writes;
	double mpiio_nb_writes;
	/* Of POSIX and STDIO together. */
	double max_byte_written; /* -1: nothing was */
	double max_byte_read;
	double consec_reads; /* that begin where the one before ended; of streams at least
				so many */
	double read_time, write_time, meta_time;
	double slowest_time;		/* of the slowest of the processes that share it */
	double read_start, write_start; /* of the first; infinite: there is none */
	double read_end, write_end;	/* of the last; 0: there is none */
	double stripe_count;		/* Lustre targets of the file; 0: not known */
};

struct sluice_log {
	int64_t
	    size; /* bytes of the file, as its header tells: a damaged one may miss some */
	char format[8];
	char exe[SLUICE_EXE_SIZE];
	int64_t uid;
	int64_t jobid;
	int64_t nprocs;
	double start; /* UTC seconds */
	double end;
	double runtime;	  /* seconds */
	uint64_t partial; /* modules that ran out of memory for records: bits by Darshan's
			     number */
	uint64_t unread;  /* likewise modules whose records may tell of bytes, and cannot be
			     read */
	int64_t watched; /* 0: POSIX was off, or the program never called what it watches */
	char parent[SLUICE_NOTE_SIZE]; /* pid of what the program was forked from, or "" */
	char notes[SLUICE_NOTES_SIZE]; /* counters that cannot be true, by name: "X, Y" */
	int64_t row_count;
	/* without standard streams that carry messages; order of first sight */
	struct sluice_file_row *rows;
	/* SLUICE_TARGET_WORDS words, a bit for each Lustre target that a file lies on;
	 * NULL: not known. */
	uint64_t *targets;
	double target_count; /* of these that hold its bytes; 0: not known */
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

/* Read one log; 0, or -1 and a reason without the log's name. Free it in either case. */
int sluice_log_read (const struct sluice_library *library, const char *path,
		     struct sluice_log *log, struct sluice_error *err);
void sluice_log_free (struct sluice_log *log);
/* Note a counter that cannot be true and was not counted. */
void sluice_log_note (struct sluice_log *log, const char *counter);

/* What there is no reader without: open, job, the records of the same modules, close. The
 * measure of speed in `make bench`. Returns the number of records, or -1. */
int64_t sluice_log_scan (const struct sluice_library *library, const char *path);

/* Log -> measurement */

enum {
	SLUICE_METADATA_OPERATIONS
	= 100, /* opens and stats, before a run can be called metadata-heavy */
	SLUICE_METADATA_BYTES = 4096,	     /* of a file; with more the data matter more */
	SLUICE_SIGNIFICANT_BYTES = 96 << 10, /* that are an I/O to speak of */
	SLUICE_READ_MOSTLY = 4, /* bytes read over bytes written, of a run that reads */
};

/* Bytes written over a file's size, from which it was written again. */
extern const double sluice_rewritten;
/* Share of a file that was written: below, there are gaps. */
extern const double sluice_filled;
/* Coverage of a partial log, whose heatmap is cut off like its records, */
extern const double sluice_unseen_coverage;
/* of a log of which a stream's data may have passed where Darshan does not look, */
extern const double sluice_silent_coverage;
/* of one that tells of nothing, and whose modules were off, full or cannot be read, */
extern const double sluice_blind_coverage;
/* of one whose bytes are told by upper layers, without where in the files they went, */
extern const double sluice_above_coverage;
/* and from which the recorded files speak for the rest. */
extern const double sluice_enough_coverage;

/* What the pattern classifier sees, in order. */
struct sluice_features {
	float share_owc;
	float share_ws;
	float share_aw;
	float share_read;
	float share_metadata;
	float significance;
	float read_ratio;
	float supplied_share;
	float log2_bytes;
	float log2_written;
	float log2_operations;
	float log2_operations_per_process;
	float log2_bytes_per_operation;
	float log2_files_per_writer;
	float log2_even_files_per_writer;
	float log2_successive_files;
	float log2_named_files;
	float log2_opens_per_file;
	float log2_writes_per_open;
	float log2_overwrite;
	float reopened_share;
	float truncated_share;
	float stdio_share;
	float streamed_share;
	float mpiio_share;
	float random_share;
	float consecutive_ratio;
	float log2_chunk;
	float flushes_per_write;
	float shared_share;
	float metadata_time_ratio;
	float program_files_ratio;
	float coverage;
	float mapped;
};

/* Shares by pattern; they sum to 1. */
struct sluice_shares {
	double owc;
	double ws;
	double aw;
	double read;
	double metadata;
	double none;
};

/* Numbers of a profile (policies/core/profile.h) that a log tells, in its units; NaN: not
 * known. */
struct sluice_log_numbers {
	double nprocs;
	double write_bytes;
	double read_bytes;
	double runtime_seconds;
	double chunk_bytes;
	double targets;
	double burst_seconds;
	double period_seconds; /* these two are found in the heatmap, not here */
	double io_share;
	double rate;
	double metadata_rate;
	double files;
	double bytes_per_flush;
	double unflushed_bytes;
	double creates_per_mib;
	double shared_share;
	double collective_share;
	double async_io;
	double direct_share;
	double read_chunk_bytes;
	double read_sequential_share;
	double read_cached_share;
};

/* What one log says about storage. */
struct sluice_measurement {
	struct sluice_features features;
	struct sluice_shares of_bytes;
	struct sluice_shares of_time; /* of the seconds spent in I/O */
	struct sluice_log_numbers numbers;
	double coverage; /* share of the bytes that per-file records account for, 0..1 */
	double slowest_seconds; /* in I/O, of the slowest process */
};

/* Say what a log tells. 0, or -1 and a reason: no job can have done that. */
int sluice_log_measure (const struct sluice_log *log, struct sluice_measurement *out,
			struct sluice_error *err);

#endif
