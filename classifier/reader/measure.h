/*
 * What a run did to storage, from the rows of its log: added up (totals.c), each file's
 * bytes and seconds assigned to a pattern (behaviour.c), and put together (measure.c).
 *
 * Traps, all of them seen in real logs: a file has bytes in its POSIX record, its STDIO
 * record or both; C++ streams open through STDIO and write through POSIX; stream opens and
 * duplicates of a descriptor count as POSIX opens too; processes that share a file may have
 * one common record.
 */
#ifndef SLUICE_MEASURE_H
#define SLUICE_MEASURE_H

#include "reader.h"

/* What a row says of its file: POSIX and STDIO together. */
struct use {
	uint32_t process, file; /* groups */
	signed char program;	/* part of a program, read as it starts */
	signed char wrote;	/* anything was written to it */
	signed char streamed;	/* opened through streams: fopen, or C++ streams */
	signed char shared;	/* several processes have one record of it */
	signed char in_common;	/* of several processes: in one record, or in one each */
	double written, read;	/* bytes */
	double size;		/* highest byte written + 1 */
	double extent;		/* highest byte read + 1 */
	double opens;		/* without streams on top of descriptors, and duplicates */
	double writes, reads;
	double seconds; /* of reads, writes and metadata, summed over the processes */
	double meta_time;
	double writing; /* seconds of writes, and of metadata as far as there is data */
	/* How surely it is so, 0..1 (behaviour.c) */
	double owc, ws;
	double again;	  /* written more than once */
	double existed;	  /* there before it was written */
	double truncated; /* emptied before that */
	double random;	  /* written in no order */
	double unfed;	  /* bytes read of it that feed no write */
	/* Files of its process that are written one after the other, itself included: of
	 * comparable size or larger, and those whose names differ in numbers only. */
	double successive, named;
};

/* Keys, each with what was added to it. */
struct group {
	uint64_t key[2];
	double count, sum, least, most;
	double flushes; /* of a process's databases (behaviour.c) */
	double touched; /* bytes of a process's files, each once (reads.c) */
};

struct groups {
	struct group *all;
	uint32_t count, room;
	uint32_t *slots; /* open addressing; number of a group + 1, 0: free */
	size_t slot_count;
};

/* Make room for so many groups; more find theirs as they come. 0, or -1: out of memory. */
int groups_reserve (struct groups *groups, uint32_t room);
/* Find the group of a key, or make one. NULL: out of memory. */
struct group *groups_find (struct groups *groups, uint64_t first, uint64_t second);
void groups_free (struct groups *groups);

/* A log under measurement. */
struct run {
	const struct sluice_log *log;
	struct use *uses;	 /* as many as the log has rows */
	double *values;		 /* room for one of each row */
	struct groups processes; /* count: files written; sum: seconds */
	struct groups files;	 /* count: rows; sum: bytes written; most: size */
	double nprocs;
	/* What may be impossible (possible.c) */
	unsigned wrong;
	double latest, reading, writing, looking; /* seconds */
	/* Sums over the rows: counts, which any order adds up alike */
	double posix_read, posix_written, stdio_read, stdio_written;
	double read, program_read; /* without, and of, the program's own files */
	double recorded;	   /* bytes written */
	double mpiio_written, streamed_written, common_written;
	double stretched; /* size of files that are long without being written */
	double writes, consecutive, flushes;
	double data_files; /* that are not the program's own */
	double operations; /* opens and stats, but for these */
	/* of files that are written */
	double files_written, size, opens_to_write, writes_of_written, flushes_of_written;
	/* What follows from them */
	double written;				   /* and what the heatmap saw besides */
	double writers;				   /* processes that write */
	double slowest, seconds, metadata_seconds; /* of I/O: see add_times */
	double chunk; /* 0: nothing was written or read, or it cannot be seen */
	double read_chunk;
	double coverage;
	int is_async, is_direct; /* may be */
	int mapped; /* files are written through memory, which Darshan cannot see */
	int blind;  /* nothing was seen, and nothing follows from that */
	/* Of behaviour.c */
	struct sluice_shares of_data; /* owc, ws, aw, read: whatever the metadata */
	struct sluice_shares of_bytes, of_time;
	double significance; /* 0: no I/O to speak of; 1: enough of it */
	double successive, named;
	double reopened, truncated, random; /* shares of the bytes written */
	double supplied;		    /* share of the bytes read that feed writes */
};

/* Add a row to the sums that any order adds up alike. */
void add_row (struct run *run, const struct use *use, const struct sluice_file_row *row);
/* Note what of a row no job can have done. */
void note_row (struct run *run, const struct sluice_file_row *row);
/* Refuse what no job can have done. 0, or -1 and a reason. */
int check_possible (const struct run *run, struct sluice_error *err);
/* Each of these: 0, or -1: out of memory. */
int find_totals (struct run *run);
int find_chunk (struct run *run, int of_reads, double *chunk);
int find_behaviour (struct run *run);
int find_series (struct run *run);
void find_supply (struct run *run);
/* Share of the reads that follow the one before, and share of the bytes read that cannot
 * have come from the servers; NaN: the log does not tell. */
double sequential_share (const struct run *run);
double cached_share (const struct run *run);
/* How much a file is written in no order. */
double how_random (const struct sluice_file_row *row);
/* How surely each block is read and then written. */
double alternating (const struct run *run, int64_t number);

/* Add in the order of numpy's sum(): its last bit depends on it, and it is the most exact
 * one that costs nothing. */
double sum_of (const double *values, int64_t count);

/* For each row of a run's log. */
#define EACH(run, number) for (int64_t number = 0; number < (run)->log->row_count; number++)

/* Sum a value over the rows for which something holds: both may speak of `use` and `row`.
 */
#define SUM(result, run, where, value)                                                     \
	do {                                                                               \
		int64_t taken_ = 0;                                                        \
		EACH (run, number_) {                                                      \
			const struct use *use = &(run)->uses[number_];                     \
			const struct sluice_file_row *row = &(run)->log->rows[number_];    \
			(void)use;                                                         \
			(void)row;                                                         \
			if (where)                                                         \
				(run)->values[taken_++] = (value);                         \
		}                                                                          \
		(result) = sum_of ((run)->values, taken_);                                 \
	} while (0)

static inline double
larger (double a, double b)
{
	return a > b ? a : b;
}

static inline double
smaller (double a, double b)
{
	return a < b ? a : b;
}

/* Within 0..1. */
static inline double
clip (double value)
{
	return smaller (larger (value, 0), 1);
}

/* 0 where b is 0. */
static inline double
ratio (double a, double b)
{
	return b > 0 ? a / b : 0;
}

#endif
