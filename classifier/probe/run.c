#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"
#include "meeting.h"
#include "worker.h"

enum { ALIGNMENT = 4096 };

/* From "all are ready" to the start, where no instant was given: s. */
static const double run_up = 0.02;

/* For how long a process that sleeps may miss that it is told to stop: s. */
static const double heedless = 0.05;

/* Rendezvous of the processes, in memory that they share. */
struct meeting {
	pthread_barrier_t barrier; /* first: arrange_meeting */
	atomic_bool stop;	   /* told by SIGUSR1 */
	atomic_bool dropped;
	double start;
	double ends[MAX_PROCESSES];
};

struct crew {
	struct meeting *meeting;
	sigset_t signals; /* awaited */
	char *chunk;	  /* forked: one copy for all writers */
};

/* ---- one process ------------------------------------------------------------ */

/* Contents that no file system can compress or thin out. */
static char *
random_chunk (uint64_t size)
{
	uint64_t state = 88172645463325252u ^ ((uint64_t)getpid () << 17);
	uint64_t *words = NULL;

	if (posix_memalign ((void **)&words, ALIGNMENT, size + sizeof *words) != 0)
		fail ("chunk", "allocate");
	for (uint64_t i = 0; i < size / sizeof *words + 1; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		words[i] = state;
	}
	return (char *)words;
}

/* Processes wait for each other before the start only: a slow one must show as
 * slow, and must not hold the others up. */
static void
meet (const struct options *options, struct meeting *meeting, struct tally *tally)
{
	if (pthread_barrier_wait (&meeting->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
		double now = clock_now ();

		meeting->start = options->start > 0 ? options->start : now + run_up;
		if (meeting->start < now)
			give_up (EXIT_LATE,
				 "--start: the instant was %.3f s ago when all processes "
				 "were ready; give them more time",
				 now - meeting->start);
		tally_begin (tally, meeting->start, options->slice);
	}
	pthread_barrier_wait (&meeting->barrier);
}

/* Sleep until then, or until it is told to stop: that need not be on time. */
static void
rest (const struct meeting *meeting, double until)
{
	for (double now; !meeting->stop && (now = clock_now ()) < until;)
		clock_wait (fmin (until, now + heedless));
}

/* Rest if it is time to; not beyond the end. */
static void
keep_period (const struct options *options, const struct meeting *meeting, double end)
{
	if (options->off <= 0)
		return;

	double period = options->on + options->off;
	double since = clock_now () - meeting->start;
	double begin = floor (since / period) * period;
	if (since - begin >= options->on)
		rest (meeting, fmin (meeting->start + begin + period, end));
}

static bool
is_done (const struct worker *worker, const struct meeting *meeting, uint64_t moved)
{
	uint64_t volume = worker->options->volume;

	return meeting->stop || (volume && moved >= volume);
}

static void
work (struct worker *worker, const struct meeting *meeting)
{
	const struct options *options = worker->options;
	double start = meeting->start;
	double end
	    = options->duration > 0 ? start + options->duration : tally_end (worker->tally);
	uint64_t moved = 0;

	rest (meeting, start);
	while (!is_done (worker, meeting, moved) && clock_now () < end) {
		moved += worker_operate (worker);
		keep_period (options, meeting, end);
	}
	if (!is_done (worker, meeting, moved) && options->duration <= 0)
		give_up (EXIT_USAGE,
			 "--slice: too short for this --volume, which is not done when "
			 "there are %d of them; give a longer one",
			 MAX_SLICES);
	worker_finish (worker);
}

static _Noreturn void
run_process (const struct options *options, const struct place *places, struct tally *tally,
	     struct meeting *meeting, unsigned number, char *chunk)
{
	struct worker worker = {
		.options = options,
		.place = &places[number % options->directory_count],
		.tally = tally,
		.buffer = chunk,
		.number = number,
		.pattern = pattern_of (options, number),
		.allowance = place_allowance (options, number),
		.dropped = &meeting->dropped,
	};

	worker.sync = sync_of (options, worker.pattern);
	worker_prepare (&worker);
	pthread_barrier_wait (&meeting->barrier);
	worker_open (&worker);
	meet (options, meeting, tally);
	work (&worker, meeting);
	meeting->ends[number] = clock_now ();
	_exit (EXIT_SUCCESS);
}

/* ---- all of them ------------------------------------------------------------ */

/* Signals that tell of a fault in a process, hold it, or let it go on do what they always
 * do. SIGPIPE does nothing: the reader of the report may have gone. */
static const int not_awaited[]
    = { SIGABRT, SIGBUS,  SIGFPE,  SIGILL,  SIGSEGV, SIGSYS,   SIGTRAP, SIGXFSZ,
	SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG,  SIGWINCH, SIGPIPE };

/* Whether it was started so that this signal does nothing, as by nohup. Those that are
 * meant for a probe are heard all the same. */
static bool
is_ignored (int number)
{
	struct sigaction action;

	if (number == SIGCHLD || number == SIGUSR1 || number == SIGUSR2)
		return false;
	return sigaction (number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* The signals that the parent waits for; it alone decides what to do. A blocked signal
 * would come in also where it is ignored. */
static sigset_t
awaited_signals (void)
{
	sigset_t set;

	sigfillset (&set);
	for (size_t i = 0; i < sizeof not_awaited / sizeof *not_awaited; i++)
		sigdelset (&set, not_awaited[i]);
	for (int number = 1; number <= SIGRTMAX; number++)
		if (is_ignored (number))
			sigdelset (&set, number);
	return set;
}

/* Children end with the parent, however that ends; until then a Ctrl-C is the
 * parent's, which waits for them. */
static void
become_child (pid_t parent)
{
	prctl (PR_SET_PDEATHSIG, SIGKILL);
	if (getppid () != parent)
		_exit (EXIT_IO);
}

/* Forget a process that has ended: its number may soon be another's. Returns whether it
 * was one of these, for exec leaves a program its children. */
static bool
forget (pid_t *pids, unsigned count, pid_t pid)
{
	for (unsigned i = 0; i < count; i++)
		if (pids[i] == pid) {
			pids[i] = 0;
			return true;
		}
	return false;
}

/* Reap what has ended; returns how many did. The status of the first failure is kept. */
static unsigned
reap (pid_t *pids, unsigned count, int *failure)
{
	unsigned ended = 0;
	int status;
	pid_t pid;

	while ((pid = waitpid (-1, &status, WNOHANG)) > 0) {
		if (!forget (pids, count, pid))
			continue;
		ended++;
		if (!*failure)
			*failure = status;
	}
	return ended;
}

/* The exit code that a process's status stands for. One that failed by itself has said
 * why. */
static int
code_of (int status)
{
	if (WIFEXITED (status))
		return WEXITSTATUS (status);
	fprintf (stderr, "sluice-probe: a process was ended by a signal: %s\n",
		 strsignal (WTERMSIG (status)));
	return EXIT_IO;
}

static void
kill_all (const pid_t *pids, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (pids[i])
			kill (pids[i], SIGKILL);
}

/* When one fails, the others would wait for it for ever. Returns an exit code: that which
 * it was told to end with, unless that is EXIT_SUCCESS. */
static int
wait_for (pid_t *pids, unsigned count, const sigset_t *signals, struct meeting *meeting,
	  int told)
{
	int failure = 0;

	for (unsigned running = count; running > 0;) {
		int signal = sigwaitinfo (signals, NULL);

		if (signal < 0)
			continue;
		if (signal == SIGUSR1)
			meeting->stop = true;
		else if (signal != SIGCHLD && !told)
			told = EXIT_SIGNAL + signal;
		running -= reap (pids, count, &failure);
		if (told || failure)
			kill_all (pids, count);
	}
	return told ? told : code_of (failure);
}

struct crew *
crew_create (const struct options *options)
{
	struct crew *crew = malloc (sizeof *crew);

	if (!crew)
		fail ("processes", "allocate");
	crew->signals = awaited_signals ();
	sigprocmask (SIG_BLOCK, &crew->signals, NULL);
	signal (SIGPIPE, SIG_IGN);
	signal (SIGCHLD, SIG_DFL); /* ignored, nothing would tell of a child's end */
	crew->meeting = arrange_meeting (sizeof *crew->meeting, options->processes);
	if (!crew->meeting)
		fail ("processes", "map");
	crew->chunk = random_chunk (options->chunk);
	return crew;
}

struct outcome
run (struct crew *crew, const struct options *options, const struct place *places,
     struct tally *tally)
{
	struct meeting *meeting = crew->meeting;
	pid_t parent = getpid ();
	pid_t pids[MAX_PROCESSES];
	unsigned count = 0;
	int told = EXIT_SUCCESS;

	for (; count < options->processes; count++) {
		pids[count] = fork ();
		if (pids[count] < 0)
			break;
		if (pids[count] == 0) {
			become_child (parent);
			run_process (options, places, tally, meeting, count, crew->chunk);
		}
	}
	if (count < options->processes) {
		fprintf (stderr, "sluice-probe: process %u: start: %s\n", count,
			 strerror (errno));
		kill_all (pids, count);
		told = EXIT_IO;
	}
	signal (SIGXFSZ, SIG_IGN); /* of its own, for a report that grows too long */
	struct outcome outcome
	    = { .code = wait_for (pids, count, &crew->signals, meeting, told) };
	outcome.start = meeting->start;
	outcome.dropped = meeting->dropped;
	for (unsigned i = 0; i < options->processes; i++)
		outcome.end = fmax (outcome.end, meeting->ends[i]);
	munmap (meeting, sizeof *meeting);
	free (crew->chunk);
	free (crew);
	return outcome;
}

/* Control characters would end the line; everything else passes as it is. */
static void
print_string (const char *text)
{
	putchar ('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar ('\\');
		if ((unsigned char)*text < ' ')
			printf ("\\u%04x", (unsigned)(unsigned char)*text);
		else
			putchar (*text);
	}
	putchar ('"');
}

/* Each part of a mix has a pattern, and its own way to flush. */
static void
print_parts (const struct options *options)
{
	printf ("\"pattern\": \"");
	for (unsigned i = 0; i < options->part_count; i++)
		printf ("%s%s", i ? "+" : "", pattern_name (options->parts[i]));
	printf ("\", \"sync\": \"");
	for (unsigned i = 0; i < options->part_count; i++)
		printf ("%s%s", i ? "+" : "",
			sync_name (sync_of (options, options->parts[i])));
	printf ("\", ");
}

/* What was not asked for is null. */
static void
print_given (const char *name, double value)
{
	if (value > 0)
		printf ("\"%s\": %.15g, ", name, value);
	else
		printf ("\"%s\": null, ", name);
}

static void
print_source (const struct options *options)
{
	printf ("\"from\": ");
	if (options->from)
		print_string (options->from);
	else
		printf ("null");
}

static void
print_past_cache (const struct options *options, const struct outcome *outcome)
{
	printf (", \"past_cache\": ");
	if (has_part (options, READ))
		print_string (outcome->dropped ? "dropped" : "direct");
	else
		printf ("null");
}

static void
print_places (const struct options *options, const struct place *places)
{
	printf ("\"directories\": [");
	for (unsigned i = 0; i < options->directory_count; i++) {
		fputs (i ? ", " : "", stdout);
		print_string (options->keep ? places[i].path : options->directories[i]);
	}
	printf ("]");
}

static void
print_run (const struct options *options, const struct place *places,
	   const struct tally *tally, const struct outcome *outcome)
{
	char host[256] = "";

	gethostname (host, sizeof host - 1);
	printf ("{\"type\": \"run\", \"version\": 1, ");
	print_parts (options);
	print_given ("duration_seconds", options->duration);
	print_given ("volume_bytes", (double)options->volume);
	print_given ("file_size_bytes", (double)options->file_size);
	print_source (options);
	print_past_cache (options, outcome);
	printf (", \"chunk_bytes\": %" PRIu64 ", \"processes\": %u, \"files\": %u, "
		"\"shared\": %s, \"direct\": %s, \"on\": %.6g, \"off\": %.6g, "
		"\"leave_percent\": %.6g, \"slice_seconds\": %.6g, \"start\": %.6f, "
		"\"host\": ",
		options->chunk, options->processes, options->files,
		options->shared ? "true" : "false", options->direct ? "true" : "false",
		options->on, options->off, options->leave * 100.0, tally->length,
		outcome->start);
	print_string (host);
	printf (", ");
	print_places (options, places);
	printf ("}\n");
}

/* Bytes, operations, latencies: of a slice, or of the whole run. */
static void
print_amounts (const struct slice *slice)
{
	printf ("\"bytes\": %" PRIu64 ", \"operations\": %" PRIu64, slice->bytes,
		slice->operations);
	if (slice->operations > 0) {
		struct quantiles q = slice_quantiles (slice);

		printf (", \"p50\": %.6f, \"p90\": %.6f, \"p99\": %.6f, \"max\": %.6f",
			q.p50, q.p90, q.p99, q.longest);
	}
	printf ("}\n");
}

int
report (const struct options *options, const struct place *places,
	const struct tally *tally, const struct outcome *outcome)
{
	struct slice total;

	tally_total (tally, &total);
	print_run (options, places, tally, outcome);
	for (unsigned i = 0; i < tally->used; i++) {
		printf ("{\"type\": \"slice\", \"time\": %.6f, ",
			tally->start + i * tally->length);
		print_amounts (&tally->slices[i]);
	}
	printf ("{\"type\": \"total\", \"start\": %.6f, \"end\": %.6f, "
		"\"reached_90_percent\": %.6f, ",
		outcome->start, outcome->end,
		tally_reached (tally, 0.9 * (double)total.bytes, outcome->start));
	print_amounts (&total);
	return fflush (stdout) == 0 && !ferror (stdout) ? 0 : -1;
}
