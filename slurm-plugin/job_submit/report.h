/*
 * The plugin's answer to `stats`: one line of JSON about what is loaded, what
 * was refused, what was decided and how long that took.
 */
#ifndef SLUICE_REPORT_H
#define SLUICE_REPORT_H

#include "counters.h"
#include "library.h"
#include "loader.h"
#include "ring.h"
#include "spool.h"

enum { REPORT_SIZE = 32 * 1024 };

/* Everything that a report is about. */
struct report_sources {
	uint64_t boot;
	const struct library *library;
	struct counters *counters;
	struct loader *loader;
	struct ring *ring;
	struct spool *spool;
};

/* Write the line, with its end, into out. Returns its length. socket_path and
 * socket_error are the server's own. */
size_t report_write (const struct report_sources *sources, const char *socket_path,
		     const char *socket_error, char out[REPORT_SIZE]);

#endif
