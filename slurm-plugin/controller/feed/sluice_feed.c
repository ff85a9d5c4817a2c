/*
 * sluice-feed: tells sluiced what Slurm knows, and only what changed, and changes
 * jobs' licences for it.
 *
 * A request on standard input is two numbers, what to tell and a job id, or what
 * to change and the size of the changes, which follow; the answer on standard
 * output is frames (frame.h) up to one of kind FRAME_END.
 * It runs as a process of its own: libslurm may hang for minutes and may crash,
 * and both must leave sluiced as it is. It ends when its input does.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "frame.h"
#include "jobs.h"
#include "room.h"
#include "slurm_api.h"

enum {
	PROTOCOL = 4,
	LONGEST = 120,	       /* seconds; sluiced has given up long before, or is gone */
	MAX_CHANGES = 1 << 24, /* bytes */
};

/* Bits of a request; sluice/slurm/queue.py has the same. */
enum {
	ASK_JOBS = 1,
	ASK_LICENSES = 2,
	ASK_RESERVATIONS = 4,
	ASK_ROOM = 8,
	ASK_ONE_JOB = 16,
	ASK_CHANGES = 32,
};

struct request {
	uint32_t what;
	uint32_t number; /* job id, or bytes of changes */
};

/* 0 at the end of the input. */
static size_t
read_all (void *out, size_t size)
{
	size_t done = 0;
	while (done < size) {
		ssize_t got = read (STDIN_FILENO, (unsigned char *)out + done, size - done);
		if (got < 0)
			err (1, "standard input");
		if (got == 0 && done > 0)
			errx (1, "half a request");
		if (got == 0)
			return 0;
		done += (size_t)got;
	}
	return done;
}

static void
make_changes (uint32_t size)
{
	unsigned char *payload = size <= MAX_CHANGES ? malloc (size ? size : 1) : NULL;
	if (!payload)
		errx (1, "%u bytes of changes", size);
	if (size && !read_all (payload, size))
		errx (1, "half a request");
	changes_make (payload, size);
	free (payload);
}

/* Write what failed, in place of what was written before. */
static void
write_error (const char *what)
{
	char text[512];
	int number = errno;
	snprintf (text, sizeof text, "%s: %s", what, slurm_strerror (number));
	frame_begin (FRAME_ERROR);
	frame_u32 ((uint32_t)number);
	frame_text (text);
	frame_end ();
}

/* The jobs come last: what was told of them is remembered, so nothing may fail
 * after that. */
static void
answer (const struct request *request)
{
	if (request->what & ASK_CHANGES)
		make_changes (request->number);
	if (request->what & ASK_LICENSES && licenses_write () != 0)
		write_error ("licences");
	else if (request->what & ASK_RESERVATIONS && reservations_write () != 0)
		write_error ("reservations");
	else if (request->what & ASK_ROOM && room_write () != 0)
		write_error ("nodes and partitions");
	else if (request->what & ASK_ONE_JOB && jobs_write_one (request->number) != 0)
		write_error ("job");
	else if (request->what & ASK_JOBS && jobs_write_changes () != 0)
		write_error ("jobs");
	frame_begin (FRAME_END);
	frame_end ();
	frame_flush ();
}

static void
say_hello (void)
{
	frame_begin (FRAME_HELLO);
	frame_u32 (PROTOCOL);
	frame_u32 (SLURM_VERSION_NUMBER);
	frame_end ();
	frame_flush ();
}

int
main (void)
{
	struct request request;
	setenv ("SLURM_BITSTR_LEN", "0", 1); /* lists of array tasks are not cut short */
	slurm_init (NULL);
	digest_init ();
	say_hello ();
	while (read_all (&request, sizeof request)) {
		alarm (LONGEST);
		answer (&request);
		alarm (0);
	}
	return 0;
}
