#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "json.h"

enum { PATH_SIZE = SLUICE_PATH_SIZE + 64 };

struct journal {
	char path[PATH_SIZE];
	/* With the number, what distinguishes a line from all others. */
	uint64_t boot, number;
	pthread_mutex_t lock;
	pthread_cond_t has_lines;
	uint64_t lost;
	uint32_t first, count;
	char lines[JOURNAL_WAITING][JOURNAL_LINE];
};

/* ---- the thread ---- */

static void
await_line (struct journal *journal, char out[JOURNAL_LINE])
{
	pthread_mutex_lock (&journal->lock);
	while (journal->count == 0)
		pthread_cond_wait (&journal->has_lines, &journal->lock);
	memcpy (out, journal->lines[journal->first], JOURNAL_LINE);
	journal->first = (journal->first + 1) % JOURNAL_WAITING;
	journal->count--;
	pthread_mutex_unlock (&journal->lock);
}

static void
put_aside (const char *path)
{
	char full[PATH_SIZE + 2];
	struct stat found;
	if (lstat (path, &found) != 0 || found.st_size < JOURNAL_MAX_BYTES)
		return;
	snprintf (full, sizeof full, "%s.1", path);
	rename (path, full);
}

static int
append (const char *path, const char *line)
{
	size_t size = strlen (line);
	put_aside (path);
	int fd = open (path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -1;
	errno = ENOSPC; /* a short write sets none */
	int failed = write (fd, line, size) != (ssize_t)size;
	return close (fd) != 0 || failed ? -1 : 0;
}

static void *
write_lines (void *data)
{
	struct journal *journal = data;
	char line[JOURNAL_LINE];
	for (;;) {
		await_line (journal, line);
		if (append (journal->path, line) == 0)
			continue;
		pthread_mutex_lock (&journal->lock);
		if (journal->lost++ == 0)
			fprintf (stderr,
				 "sluice-turns: held bursts are not recorded: %s: %s\n",
				 journal->path, strerror (errno));
		pthread_mutex_unlock (&journal->lock);
	}
	return NULL;
}

/* ---- for the caller ---- */

int
journal_start (const char *path, struct journal **out, struct sluice_error *err)
{
	struct journal *journal = calloc (1, sizeof *journal);
	pthread_t thread;
	if (!journal)
		return sluice_fail (err, "no memory");
	sluice_copy_text (journal->path, sizeof journal->path, path);
	while (journal->boot == 0)
		if (getrandom (&journal->boot, sizeof journal->boot, 0) < 0)
			return sluice_fail (err, "getrandom: %s", strerror (errno));
	pthread_mutex_init (&journal->lock, NULL);
	pthread_cond_init (&journal->has_lines, NULL);
	int error = pthread_create (&thread, NULL, write_lines, journal);
	if (error)
		return sluice_fail (err, "no thread: %s", strerror (error));
	*out = journal;
	return 0;
}

/* JSON has no NaN. */
static void
put_number (struct json *json, const char *name, double value)
{
	if (isfinite (value))
		json_put (json, ",\"%s\":%.3f", name, value);
	else
		json_put (json, ",\"%s\":null", name);
}

static void
describe (const struct journal *journal, const struct held_burst *burst, double clock,
	  char out[JOURNAL_LINE])
{
	struct json json = { out, JOURNAL_LINE - 1, 0 };
	double now = (double)time (NULL);
	json_put (&json,
		  "{\"boot\":\"%016" PRIx64 "\",\"number\":%" PRIu64
		  ",\"job_id\":%u,\"nodes\":%u,\"first_job\":%u,\"first_nodes\":%u,"
		  "\"lane_mask\":%u,\"holds\":%u,\"is_held\":%s,\"ended\":\"%s\"",
		  journal->boot, journal->number, burst->job_id, burst->nodes, burst->first,
		  burst->first_nodes, burst->lane_mask, burst->holds,
		  burst->is_held ? "true" : "false", burst->ended);
	put_number (&json, "began", now - (clock - burst->began));
	put_number (&json, "lasted", clock - burst->began);
	put_number (&json, "held", burst->held);
	put_number (&json, "bytes", burst->bytes);
	put_number (&json, "saving", burst->saving);
	json_put (&json, "}");
	strcat (out, "\n");
}

void
journal_add (struct journal *journal, const struct held_burst *burst, double clock)
{
	pthread_mutex_lock (&journal->lock);
	journal->number++;
	if (journal->count == JOURNAL_WAITING) {
		journal->lost++;
	} else {
		uint32_t place = (journal->first + journal->count++) % JOURNAL_WAITING;
		describe (journal, burst, clock, journal->lines[place]);
		pthread_cond_signal (&journal->has_lines);
	}
	pthread_mutex_unlock (&journal->lock);
}

uint64_t
journal_lost (struct journal *journal)
{
	pthread_mutex_lock (&journal->lock);
	uint64_t lost = journal->lost;
	pthread_mutex_unlock (&journal->lock);
	return lost;
}
