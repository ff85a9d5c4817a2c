/* The command line of sluice-probe. */
#ifndef SLUICE_PROBE_OPTIONS_H
#define SLUICE_PROBE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum pattern { OWC, WS, AW, READ, METADATA, PATTERNS };
enum sync { SYNC_NONE, SYNC_CLOSE, SYNC_EACH, SYNCS };

enum {
	MAX_PROCESSES = 1024,
	MAX_FILES = 256,  /* that a process has open */
	MAX_PARTS = 16,	  /* of a mixed pattern */
	MAX_TARGETS = 64, /* directories */
};

struct options {
	enum pattern parts[MAX_PARTS]; /* process p does part p modulo part_count */
	unsigned part_count;
	uint64_t chunk; /* bytes */
	unsigned processes;
	unsigned files; /* that a process deals its operations to */
	bool shared;	/* one file for all processes */
	bool sync_given;
	enum sync sync; /* if given; else each pattern's own */
	bool direct;
	uint64_t volume;    /* bytes of a process; 0: until the duration ends */
	double duration;    /* s; 0: until the volume is written */
	double start;	    /* seconds since the epoch; 0: when all are ready */
	double on, off;	    /* s; off 0: without pauses */
	double slice;	    /* s */
	uint64_t file_size; /* bytes; if given, else each pattern's own */
	double leave;	    /* share of a file system that stays free */
	const char *from;   /* directory with files to read; NULL: own ones */
	bool keep;
	char **directories;
	unsigned directory_count;
};

/* Ends the program with EXIT_USAGE and what is wrong, or after --help. */
struct options parse_options (int argc, char **argv);

const char *pattern_name (enum pattern pattern);
const char *sync_name (enum sync sync);

/* What process `number` does; how a pattern flushes, and after how many bytes it begins a
 * file again (0: never). */
enum pattern pattern_of (const struct options *options, unsigned number);
enum sync sync_of (const struct options *options, enum pattern pattern);
uint64_t file_size_of (const struct options *options, enum pattern pattern);
/* Whether a process does that; whether chunks are such that direct I/O takes them. */
bool has_part (const struct options *options, enum pattern pattern);
bool is_aligned (const struct options *options);

#endif
