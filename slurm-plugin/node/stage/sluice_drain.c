/*
 * sluice-drain: brings what a job writes on its node's own storage to where it belongs.
 *
 * The local directory is what the destination has to become: events tell which paths to
 * look at and in which order, and a scan in the end tells of what they have missed.
 * Finished files become visible at the destination whole, under a temporary name before
 * that. The local ones stay as they are.
 *
 * Runs as its caller. SIGTERM: drain the rest, then end. SIGINT: end at once;
 * what is not drained stays, and the same command goes on with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "drain.h"
#include "lease.h"

enum {
	GATHER_MS = 250,     /* small files that come one by one */
	BLIND_S = 30,	     /* between scans where events do not come */
	MOST_PAUSE_S = 30,   /* of a destination that does not take anything */
	MOST_WAIT_S = 60,    /* of a file that is open or cannot be copied */
	OPEN_PATIENCE_S = 10 /* in the end, for what is still open */
};

static struct drain the_drain = { .from = -1,
				  .to = -1,
				  .events = -1,
				  .signals = -1,
				  .settle = SECOND_NS,
				  .patience_s = 60 };

int64_t
now_ns (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* ---- time, signals and events ---- */

static void
read_signals (struct drain *drain)
{
	struct signalfd_siginfo signal;
	while (read (drain->signals, &signal, sizeof signal) == sizeof signal)
		if (signal.ssi_signo == SIGINT)
			drain->is_stopping = 1;
		else
			drain->is_once = 1;
}

void
drain_wait (struct drain *drain, int64_t until)
{
	struct pollfd ready[2] = { { .fd = drain->signals, .events = POLLIN },
				   { .fd = drain->events, .events = POLLIN } };
	int64_t left = until == INT64_MAX ? -1 : (until - now_ns () + 999999) / 1000000;

	if (until != INT64_MAX && left < 0)
		left = 0;
	poll (ready, 2, left > INT_MAX ? INT_MAX : (int)left);
	read_signals (drain);
	watch_read (drain);
}

int
drain_between (void *data, int64_t written)
{
	struct drain *drain = data;
	int64_t now = now_ns ();

	if (drain->is_first_try)
		drain->progress = now;
	drain->bytes += (uint64_t)written;
	if (drain->rate) {
		if (drain->paced_until < now)
			drain->paced_until = now;
		drain->paced_until
		    += (int64_t)((double)written / (double)drain->rate * SECOND_NS);
	}
	do
		drain_wait (drain, drain->paced_until);
	while (now_ns () < drain->paced_until && !drain->is_stopping
	       && !lease_is_broken ());
	return drain->is_stopping || lease_is_broken () ? REASON_CHANGED : 0;
}

void
drain_add (struct drain *drain, const char *path, int is_forced)
{
	queue_add (&drain->queue, path, now_ns () + drain->settle, is_forced);
}

/* ---- what cannot be drained now ---- */

/* Of the destination as a whole, not of a name. */
static int
is_of_destination (int reason)
{
	switch (reason) {
	case ENOSPC:
	case EDQUOT:
	case EROFS:
	case EIO:
	case ESTALE:
	case ENOTCONN:
	case ENODEV:
	case ENOENT:
	case ETIMEDOUT:
		return 1;
	default:
		return 0;
	}
}

static int64_t
doubled (uint32_t times, int64_t most)
{
	return times < 6 && 1 << times < most ? 1 << times : most;
}

void
drain_later (struct drain *drain, struct item *item, int reason)
{
	int64_t now = now_ns (), wait = doubled (item->tries, MOST_WAIT_S) * SECOND_NS;

	if (is_of_destination (reason) && now >= drain->paused_until)
		drain->paused_until
		    = now + doubled (drain->failures++, MOST_PAUSE_S) * SECOND_NS;
	if (reason == REASON_CHANGED)
		wait = drain->settle;
	if (drain->is_ending && wait > SECOND_NS / 5)
		wait = SECOND_NS / 5;
	queue_wait (&drain->queue, item, now + wait, reason);
}

/* A directory that another one took the place of, as when a file system is no longer
 * mounted, is not the destination. */
static void
open_again (struct drain *drain)
{
	struct stat found;
	struct statfs before, after;
	int fd = open (drain->to_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && fstat (fd, &found) == 0 && found.st_ino == drain->destination.st_ino
	    && fstatfs (fd, &after) == 0
	    && (fstatfs (drain->to, &before) < 0 || before.f_type == after.f_type)) {
		dup3 (fd, drain->to, O_CLOEXEC);
		drain->destination = found;
	}
	if (fd >= 0)
		close (fd);
}

/* ---- the loop ---- */

static void
look (struct drain *drain, struct item *item)
{
	int taken = 0;

	drain->is_first_try = item->tries == 0;
	int reason = publish (drain, item, &taken);

	if (reason == 0) {
		drain->failures = 0;
		drain->progress = now_ns ();
		if (!taken)
			free (item);
		return;
	}
	drain_later (drain, item, reason);
	if (is_of_destination (reason))
		open_again (drain);
}

/* In the end, what only waits for a process that has it open, or for another name. */
static int
is_hopeless (const struct drain *drain, int64_t now)
{
	int64_t idle = (now - drain->progress) / SECOND_NS;
	int is_only_open = 1, is_only_reserved = 1;

	for (const struct item *item = drain->queue.late.first; item; item = item->next) {
		is_only_open
		    &= item->reason == REASON_OPEN || item->reason == REASON_RESERVED;
		is_only_reserved
		    &= item->reason == REASON_RESERVED || item->reason == REASON_GONE;
	}
	if (drain->queue.ready.first)
		is_only_open = is_only_reserved = 0;
	return is_only_reserved || (is_only_open && idle >= OPEN_PATIENCE_S)
	       || idle >= drain->patience_s;
}

static void
begin_ending (struct drain *drain)
{
	drain->is_ending = 1;
	drain->progress = now_ns ();
	drain->paused_until = 0;
	watch_read (drain);
	queue_wake (&drain->queue, INT64_MAX);
}

/* 1: the scan has found nothing more. */
static int
is_drained (struct drain *drain)
{
	int is_forced = drain->has_missed && !drain->is_blind;

	drain->has_missed = 0;
	watch_read (drain);
	watch_scan (drain, "", is_forced || drain->is_blind == 1, 1);
	if (drain->is_blind)
		drain->is_blind = 2; /* once is enough */
	return !drain->queue.ready.first && !drain->queue.late.first;
}

/* A directory that was renamed takes the files along, and nothing is where it was said. */
static int
is_in_place (const struct drain *drain)
{
	struct stat found;
	return stat (drain->to_path, &found) == 0
	       && found.st_ino == drain->destination.st_ino
	       && found.st_dev == drain->destination.st_dev;
}

static void
rest (struct drain *drain, int64_t now)
{
	int64_t until = queue_due (&drain->queue);
	if (drain->batch_count)
		until = drain->batch_since + GATHER_MS * 1000000LL;
	if (drain->paused_until > now)
		until = drain->paused_until;
	if (drain->is_blind && until > now + BLIND_S * SECOND_NS)
		until = now + BLIND_S * SECOND_NS;
	if (drain->is_ending && until > now + SECOND_NS)
		until = now + SECOND_NS;
	drain_wait (drain, until);
	drain->must_scan |= drain->is_blind && !drain->is_ending
			    && now_ns () >= now + BLIND_S * SECOND_NS;
}

static struct item *
next (struct drain *drain, int64_t now)
{
	if (drain->paused_until > now)
		return NULL;
	queue_wake (&drain->queue, now);
	return queue_take (&drain->queue, drain->is_ending ? INT64_MAX : now);
}

static void
keep_journal_short (struct drain *drain, const char *roots)
{
	struct identity destination = identity_of (&drain->destination);
	if (drain->batch_count == 0 && journal_is_long (&drain->journal, &drain->names))
		journal_rewrite (&drain->journal, roots, &destination, &drain->names);
}

/* 0: all is at the destination. */
static int
run (struct drain *drain, const char *roots)
{
	while (!drain->is_stopping) {
		if (drain->is_once && !drain->is_ending)
			begin_ending (drain);
		if (drain->must_scan) {
			drain->must_scan = 0;
			watch_scan (drain, "", 0, 0);
		}
		int64_t now = now_ns ();
		struct item *item = next (drain, now);
		watch_read (drain);
		if (item) {
			look (drain, item);
			read_signals (drain);
			continue;
		}
		int is_gathered = now >= drain->batch_since + GATHER_MS * 1000000LL;
		if (drain->batch_count && (drain->is_ending || is_gathered)) {
			batch_flush (drain);
			continue;
		}
		keep_journal_short (drain, roots);
		int is_empty = !drain->queue.ready.first && !drain->queue.late.first;
		if (drain->is_ending && is_empty && is_drained (drain))
			return is_in_place (drain) ? ending_directories (drain) : ENOENT;
		if (drain->is_ending && is_hopeless (drain, now))
			break;
		rest (drain, now);
	}
	batch_flush (drain);
	return -1;
}

/* ---- the start ---- */

static int
open_directory (const char *path)
{
	int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fprintf (stderr, "sluice-drain: %s: %s\n", path, strerror (errno));
	return fd;
}

static int
start (struct drain *drain)
{
	sigset_t signals;

	sigemptyset (&signals);
	sigaddset (&signals, SIGTERM);
	sigaddset (&signals, SIGINT);
	sigprocmask (SIG_BLOCK, &signals, NULL);
	signal (SIGXFSZ, SIG_IGN);
	signal (SIGHUP, SIG_IGN);
	drain->signals = signalfd (-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (drain->signals < 0 || lease_start () < 0) {
		perror ("sluice-drain");
		return -1;
	}
	drain->from = open_directory (drain->from_path);
	drain->to = drain->from < 0 ? -1 : open_directory (drain->to_path);
	if (drain->to < 0 || fstat (drain->to, &drain->destination) < 0)
		return -1;
	if (flock (drain->from, LOCK_EX | LOCK_NB) < 0) {
		fprintf (stderr, "sluice-drain: %s: another drainer is at work\n",
			 drain->from_path);
		return -1;
	}
	watch_start (drain);
	return 0;
}

int
main (int argc, char **argv)
{
	static char roots[2 * PATH_MAX + 2];
	struct drain *drain = &the_drain;

	options_parse (argc, argv, drain);
	snprintf (roots, sizeof roots, "%s\n%s", drain->from_path, drain->to_path);
	if (start (drain) < 0 || load (drain, roots) < 0)
		return 1;
	int error = run (drain, roots);
	if (error > 0)
		fprintf (stderr, "sluice-drain: %s: %s\n", drain->to_path,
			 strerror (error));
	fprintf (stderr, "sluice-drain: drained %" PRIu64 " files and %" PRIu64 " bytes\n",
		 drain->published, drain->bytes);
	return ending_report (drain) || error ? 1 : 0;
}
