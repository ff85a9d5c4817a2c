/*
 * Hands decision records to sluiced and statistics to `sluice doctor`, through
 * a unix socket that a thread of its own serves. One request a connection:
 *
 *   drain <boot> <after> <max>   forget the records up to number <after> of
 *                                this boot (16 hex digits; 0: none), then
 *                                answer `records <count> <size> <boot> <dropped>`
 *                                and count * size bytes of struct sluice_record
 *   wait <boot> <after> <max> <ms>
 *                                the same, but while there is no record, answer
 *                                only after so many milliseconds
 *   stats                        answer one line of JSON
 *
 * All records of an answer are of the boot that it names. Those of an earlier slurmctld
 * (spool.h) come in answers of their own, so fewer than <max> may come although more
 * follow. Records lost between two slurmctlds count as dropped. Of several clients that
 * wait the last one goes on waiting, the others are answered.
 *
 * Anything else is answered by `error <text>`. Only root and slurmctld's own
 * user are served. A client that hangs is dropped after seconds and delays
 * only other clients.
 */
#ifndef SLUICE_SERVER_H
#define SLUICE_SERVER_H

#include <pthread.h>
#include <sys/stat.h>

#include "config.h"
#include "counters.h"
#include "loader.h"
#include "ring.h"
#include "spool.h"

/*
 * The file that this plugin was loaded from, as it was then. Overwriting it in
 * place changes the code that slurmctld runs; `sluice doctor` compares.
 */

struct library {
	char path[SLUICE_PATH_SIZE]; /* empty: it cannot be told */
	struct stat loaded;
};

/* To be called when the plugin is loaded, and never under Slurm's locks. */
void library_identify (struct library *out);

/*
 * The plugin's answer to `stats`: one line of JSON about what is loaded, what
 * was refused, what was decided and how long that took.
 */

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

struct server {
	pthread_t thread;
	int stop_fd;
	struct report_sources sources;

	int listen_fd; /* -1: none */
	char path[SLUICE_PATH_SIZE];
	struct stat bound; /* of the socket at path, as we made it */
	char error[SLUICE_ERROR_SIZE];
	char report[REPORT_SIZE];

	int waiting_fd; /* a client that waits for records; -1: none */
	uint32_t waiting_max;
	int64_t waiting_until; /* thread_milliseconds */
};

/* Start the thread, which binds the configured path as soon as it can and
 * again when the path or the file has changed. -1: no thread. */
int server_start (struct server *server, const struct report_sources *sources, int stop_fd);

#endif
