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
 * nobody but other clients.
 */
#ifndef SLUICE_SERVER_H
#define SLUICE_SERVER_H

#include <pthread.h>
#include <sys/stat.h>

#include "report.h"

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
