/*
 * What is used of libdarshan-util (the wheel carries no header): the calls, and the layout
 * of an open log; and the records that logs hold. Records of older formats and of the other
 * byte order are made these by region.c.
 *
 * The handle's layout is looked into for what the library has no cheap call for: which
 * modules there are, and where their records and the names of files lie (see region.h). It
 * is that of 3.5; of another version it is tried before it is trusted (library.c).
 */
#ifndef SLUICE_DARSHAN_H
#define SLUICE_DARSHAN_H

#include <stddef.h>
#include <stdint.h>

enum {
	DARSHAN_MODULES = 64,
	DARSHAN_POSIX = 1,
	DARSHAN_MPIIO = 2,
	DARSHAN_H5F = 3,
	DARSHAN_H5D = 4,
	DARSHAN_PNETCDF_FILE = 5,
	DARSHAN_PNETCDF_VAR = 6,
	DARSHAN_BGQ = 7,
	DARSHAN_LUSTRE = 8,
	DARSHAN_STDIO = 9,
	DARSHAN_DXT_POSIX = 10,
	DARSHAN_DXT_MPIIO = 11,
	DARSHAN_APXC = 13,
	DARSHAN_APMPI = 14,
	DARSHAN_HEATMAP = 15,
	DARSHAN_DFS = 16,
	DARSHAN_DAOS = 17,
};

struct libdeflate_decompressor;

struct darshan_region {
	uint64_t offset, length; /* 0: the log has none */
};

struct darshan_state {
	int file; /* descriptor of the open log */
		  /* more follows */
};

struct darshan_handle {
	char version[8];
	int swapped; /* the log has the other byte order */
	uint64_t partial;
	int compression;
	struct darshan_region job, names, modules[DARSHAN_MODULES];
	uint32_t versions[DARSHAN_MODULES];
	const struct darshan_state *state;
	/* more follows, the library's own */
};

struct darshan_job {
	int64_t uid, start_sec, start_nsec, end_sec, end_nsec, nprocs, jobid;
	char metadata[1024];
};

struct darshan_base {
	uint64_t id;
	int64_t rank;
};

enum {
	POSIX_OPENS,
	POSIX_FILENOS,
	POSIX_DUPS,
	POSIX_READS,
	POSIX_WRITES,
	POSIX_SEEKS,
	POSIX_STATS,
	POSIX_MMAPS,
	POSIX_FSYNCS,
	POSIX_FDSYNCS,
	POSIX_RENAME_SOURCES,
	POSIX_RENAME_TARGETS,
	POSIX_RENAMED_FROM,
	POSIX_MODE,
	POSIX_BYTES_READ,
	POSIX_BYTES_WRITTEN,
	POSIX_MAX_BYTE_READ,
	POSIX_MAX_BYTE_WRITTEN,
	POSIX_CONSEC_READS,
	POSIX_CONSEC_WRITES,
	POSIX_SEQ_READS,
	POSIX_SEQ_WRITES,
	POSIX_RW_SWITCHES,
	POSIX_MEM_NOT_ALIGNED,
	POSIX_MEM_ALIGNMENT,
	POSIX_FILE_NOT_ALIGNED,
	POSIX_FILE_ALIGNMENT,
	POSIX_MAX_READ_TIME_SIZE,
	POSIX_MAX_WRITE_TIME_SIZE,
	POSIX_SIZE_READ, /* 10 of them */
	POSIX_SIZE_WRITE = POSIX_SIZE_READ + 10,
	POSIX_STRIDE = POSIX_SIZE_WRITE + 10, /* 4 of each from here */
	POSIX_STRIDE_COUNT = POSIX_STRIDE + 4,
	POSIX_ACCESS = POSIX_STRIDE_COUNT + 4,
	POSIX_ACCESS_COUNT = POSIX_ACCESS + 4,
	POSIX_FASTEST_RANK = POSIX_ACCESS_COUNT + 4,
	POSIX_COUNTERS = POSIX_FASTEST_RANK + 4,
};

enum {
	POSIX_OPEN_START_TIMESTAMP,
	POSIX_READ_START_TIMESTAMP,
	POSIX_WRITE_START_TIMESTAMP,
	POSIX_CLOSE_START_TIMESTAMP,
	POSIX_OPEN_END_TIMESTAMP,
	POSIX_READ_END_TIMESTAMP,
	POSIX_WRITE_END_TIMESTAMP,
	POSIX_CLOSE_END_TIMESTAMP,
	POSIX_READ_TIME,
	POSIX_WRITE_TIME,
	POSIX_META_TIME,
	POSIX_MAX_READ_TIME,
	POSIX_MAX_WRITE_TIME,
	POSIX_FASTEST_RANK_TIME,
	POSIX_SLOWEST_RANK_TIME,
	POSIX_VARIANCE_RANK_TIME,
	POSIX_VARIANCE_RANK_BYTES,
	POSIX_TIMES,
};

struct darshan_posix {
	struct darshan_base base;
	int64_t counters[POSIX_COUNTERS];
	double times[POSIX_TIMES];
};

enum {
	STDIO_OPENS,
	STDIO_FDOPENS,
	STDIO_READS,
	STDIO_WRITES,
	STDIO_SEEKS,
	STDIO_FLUSHES,
	STDIO_BYTES_WRITTEN,
	STDIO_BYTES_READ,
	STDIO_MAX_BYTE_READ,
	STDIO_MAX_BYTE_WRITTEN,
	STDIO_FASTEST_RANK,
	STDIO_COUNTERS = STDIO_FASTEST_RANK + 4,
};

enum {
	STDIO_META_TIME,
	STDIO_WRITE_TIME,
	STDIO_READ_TIME,
	STDIO_OPEN_START_TIMESTAMP,
	STDIO_CLOSE_START_TIMESTAMP,
	STDIO_WRITE_START_TIMESTAMP,
	STDIO_READ_START_TIMESTAMP,
	STDIO_OPEN_END_TIMESTAMP,
	STDIO_CLOSE_END_TIMESTAMP,
	STDIO_WRITE_END_TIMESTAMP,
	STDIO_READ_END_TIMESTAMP,
	STDIO_FASTEST_RANK_TIME,
	STDIO_SLOWEST_RANK_TIME,
	STDIO_VARIANCE_RANK_TIME,
	STDIO_VARIANCE_RANK_BYTES,
	STDIO_TIMES,
};

struct darshan_stdio {
	struct darshan_base base;
	int64_t counters[STDIO_COUNTERS];
	double times[STDIO_TIMES];
};

enum {
	MPIIO_INDEP_OPENS,
	MPIIO_COLL_OPENS,
	MPIIO_INDEP_READS,
	MPIIO_INDEP_WRITES,
	MPIIO_COLL_READS,
	MPIIO_COLL_WRITES,
	MPIIO_SPLIT_READS,
	MPIIO_SPLIT_WRITES,
	MPIIO_NB_READS,
	MPIIO_NB_WRITES,
	MPIIO_SYNCS,
	MPIIO_HINTS,
	MPIIO_VIEWS,
	MPIIO_MODE,
	MPIIO_BYTES_READ,
	MPIIO_BYTES_WRITTEN,
	MPIIO_RW_SWITCHES,
	MPIIO_MAX_READ_TIME_SIZE,
	MPIIO_MAX_WRITE_TIME_SIZE,
	MPIIO_SIZE_READ, /* 10 of them */
	MPIIO_SIZE_WRITE = MPIIO_SIZE_READ + 10,
	MPIIO_ACCESS = MPIIO_SIZE_WRITE + 10, /* 4 of each from here */
	MPIIO_ACCESS_COUNT = MPIIO_ACCESS + 4,
	MPIIO_FASTEST_RANK = MPIIO_ACCESS_COUNT + 4,
	MPIIO_COUNTERS = MPIIO_FASTEST_RANK + 4,
};

enum {
	MPIIO_READ_TIME = 8, /* after the same eight times as POSIX has */
	MPIIO_WRITE_TIME,
	MPIIO_META_TIME,
	MPIIO_SLOWEST_RANK_TIME = 14,
	MPIIO_TIMES = 17,
};

struct darshan_mpiio {
	struct darshan_base base;
	int64_t counters[MPIIO_COUNTERS];
	double times[MPIIO_TIMES];
};

/* Of the modules whose records are of one size. */
union darshan_record {
	struct darshan_posix posix;
	struct darshan_stdio stdio;
	struct darshan_mpiio mpiio;
};

/* The library once loaded; for one thread. */
struct sluice_library {
	void *object; /* of dlopen */
	struct darshan_handle *(*open) (const char *path);
	void (*close) (struct darshan_handle *);
	int (*get_job) (struct darshan_handle *, struct darshan_job *);
	int (*get_runtime) (struct darshan_handle *, struct darshan_job, double *seconds);
	int (*get_exe) (struct darshan_handle *, char *text);
	/* For comparison, NULL where it has none; 1: *record is filled, or allocated where
	 * it was NULL; 0: no more; -1: damaged */
	int (*get_record) (struct darshan_handle *, int module, void **record);
	void (*free) (void *);
	const char *const *posix_counters; /* names */
	const char *const *stdio_counters;
	const char *const *mpiio_counters;
	struct libdeflate_decompressor *unpacker; /* see region.h */
};

#endif
