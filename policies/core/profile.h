/*
 * The I/O profile of a job: what it does to storage, in numbers.
 *
 * The pattern's name is for people; the interference model uses the numbers.
 * Whatever was never measured is SLUICE_UNKNOWN, not zero.
 */
#ifndef SLUICE_PROFILE_H
#define SLUICE_PROFILE_H

#include "base.h"
#include "vocabulary.h"

/*
 * X(name, unit, meaning): the numeric fields, in the order of the struct.
 * The physical ones (bytes_per_flush ... collective_share) are what drives
 * interference, whatever the pattern is called.
 */
#define SLUICE_PROFILE_FIELDS(X)                                                           \
	X (chunk_bytes, "B", "bytes of a typical write")                                   \
	X (nprocs, "processes", "processes of the job")                                    \
	X (write_bytes, "B", "bytes written in a run")                                     \
	X (read_bytes, "B", "bytes read in a run")                                         \
	X (files, "files", "files written in a run")                                       \
	X (rate, "B/s", "rate during its I/O, alone on all its targets")                   \
	X (metadata_rate, "ops/s", "opens, stats and unlinks a second of I/O")             \
	X (burst_seconds, "s", "length of one I/O burst, alone")                           \
	X (period_seconds, "s", "from the start of a burst to the next")                   \
	X (io_share, "0..1", "share of the run time alone that is I/O")                    \
	X (runtime_seconds, "s", "run time, alone")                                        \
	X (bytes_per_flush, "B", "bytes between two flushes; write_bytes if never")        \
	X (creates_per_mib, "1/MiB", "files created a MiB written")                        \
	X (unflushed_bytes, "B", "bytes a process leaves in the cache")                    \
	X (direct_share, "0..1", "share of the bytes that bypass the cache")               \
	X (collective_share, "0..1", "share of the bytes written collectively")            \
	X (shared_share, "0..1", "share of the bytes in files shared by processes")        \
	X (targets, "targets", "storage targets used")                                     \
	X (async_io, "0/1", "computes while it writes")                                    \
	X (read_chunk_bytes, "B", "bytes of a typical read")                               \
	X (read_sequential_share, "0..1", "share of the reads that follow the one before") \
	X (read_cached_share, "0..1", "share of read_bytes that came from the node's cache")

#define SLUICE_PROFILE_MEMBER(name, unit, text) double name;
#define SLUICE_PROFILE_ONE_MORE(name, unit, text) +1

enum { SLUICE_PROFILE_FIELD_COUNT = 0 SLUICE_PROFILE_FIELDS (SLUICE_PROFILE_ONE_MORE) };

/* No quantity is larger, and products of two or three stay finite. */
extern const double sluice_profile_largest;
extern const float sluice_widest_spread; /* no two differ by more than e^64 */
/* Beyond it, in one case of ten, a number is off by more than a factor of two. */
extern const float sluice_wide_spread;

struct sluice_profile {
	SLUICE_PROFILE_FIELDS (SLUICE_PROFILE_MEMBER)
	double log_sd;	   /* sd of ln(weight on a target) due to the profile */
	double confidence; /* 0..1 that the pattern is right */
	float share[SLUICE_PATTERN_COUNT]; /* of the bytes, by pattern; sums to 1 */
	/* By field: sd of ln (value of the next run); SLUICE_UNKNOWN: unknown. */
	float spread[SLUICE_PROFILE_FIELD_COUNT];
	uint32_t pattern; /* enum sluice_pattern */
	uint32_t runs;	  /* runs behind it */
};

/* Every number and spread unknown, pattern unknown, no runs. */
void sluice_profile_init (struct sluice_profile *profile);

/* 0 if every field is in its range (0..1, 0..1e30 or SLUICE_UNKNOWN); else -1
 * and the name of the first field that is not. */
int sluice_profile_check (const struct sluice_profile *profile, struct sluice_error *err);

/* The i-th numeric field; NULL at the end. */
double *sluice_profile_field (struct sluice_profile *profile, unsigned int i);

/* The profile at one end of what it may be: each number with a spread moves by so many
 * of them, shares up to 1. The other numbers stay. Times and the I/O share are volume
 * over rate: they move with the volume, or against the rate where that is less certain. */
void sluice_profile_shift (const struct sluice_profile *profile, double spreads,
			   struct sluice_profile *out);

/* Names, units and meanings of the numeric fields, for reports; NULL at the end. */
const char *sluice_profile_field_name (unsigned int i);
const char *sluice_profile_field_unit (unsigned int i);
const char *sluice_profile_field_text (unsigned int i);

/* The share of the bytes that reach the servers: what is read again comes from caches. */
double sluice_profile_served_share (const struct sluice_profile *profile);

/* r: the share of these that are read; without both volumes the pattern's. */
double sluice_profile_reading_share (const struct sluice_profile *profile);

/* s: the share of the chunks that no process waits for until they are flushed. A chunk
 * is waited for if it is read, flushed right away or bypasses the cache. Without numbers
 * the pattern decides: AW streams, OWC and WS flush. */
double sluice_profile_streaming_share (const struct sluice_profile *profile);

/* k: the share of the chunks that create a file; without numbers OWC's. */
double sluice_profile_creating_share (const struct sluice_profile *profile);

#endif
