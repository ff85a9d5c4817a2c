/* writer - write real files in one of three access patterns and say what it took.
 *
 * The patterns are those of Shah et al. (SuperFrI 2019), per process:
 *   owc  loop { create a new file, write one chunk, flush, close }
 *   ws   open; loop { seek to 0, write one chunk, flush }; close
 *   aw   open; loop { append one chunk }; close
 * with one file per process for ws and aw, and fsync as the flush.
 *
 * A program writes in bursts and computes between them. Its processes meet before
 * and after every burst, as a bulk-synchronous program does, so a burst lasts as
 * long as its slowest process. "Computing" is sleeping: a lab has few cores, and
 * only the I/O shall be contended.
 *
 * Given several directories, process p writes to directory p modulo their number.
 * Given several volumes, burst b writes volume b modulo their number.
 *
 * On success one JSON object on stdout: bytes and operations of all processes,
 * started (seconds since the epoch), wall_seconds from the first burst's start to
 * the last one's end, io_seconds spent in bursts, and each burst with its
 * offset_seconds from the start. On any error (a full target, too) a message on
 * stderr, exit code 1 and no JSON; wrong usage is exit code 2.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../classifier/probe/meeting.h"

#define MAX_BURSTS 10000
#define MAX_VOLUMES 100
#define MAX_PROCESSES 1024

enum pattern { OWC, WS, AW, PATTERNS };

static const char *const pattern_names[PATTERNS] = { "owc", "ws", "aw" };

static const char usage[]
    = "Usage: writer --pattern owc|ws|aw --volume BYTES [OPTIONS] DIRECTORY...\n"
      "  --pattern NAME    access pattern\n"
      "  --volume BYTES    written by each process in each burst; a multiple of the "
      "chunk;\n"
      "                    several, separated by commas: by one burst after the other\n"
      "  --chunk BYTES     written at once (default 1M)\n"
      "  --processes N     default 1\n"
      "  --bursts N        default 1\n"
      "  --pause SECONDS   of computing between bursts (default 0)\n"
      "  --at SECONDS      the first burst begins then, since the epoch (default: at "
      "once)\n"
      "  --rate BYTES      a second, that each process writes at most (default: no limit)\n"
      "  --ring BYTES      aw: after so many, write over them from the begin of the file\n"
      "  --flush           aw: fsync at the end of each burst; counts as I/O\n"
      "  --remove          remove the files afterwards; does not count\n"
      "BYTES may end in K, M or G (powers of 1024).\n";

struct options {
	enum pattern pattern;
	uint64_t volumes[MAX_VOLUMES]; /* bytes a process and burst */
	unsigned volume_count;
	uint64_t chunk; /* bytes */
	uint64_t ring;	/* bytes; 0: none */
	uint64_t rate;	/* bytes a second; 0: no limit */
	double at;	/* seconds since the epoch */
	unsigned processes;
	unsigned bursts;
	double pause; /* seconds */
	bool flush;
	bool remove;
	char **directories;
	unsigned directory_count;
};

/* What the processes share: where they meet, and when they did (CLOCK_MONOTONIC). */
struct meeting {
	pthread_barrier_t barrier; /* first: arrange_meeting */
	double started;		   /* seconds since the epoch */
	struct {
		double start;
		double end;
	} bursts[MAX_BURSTS];
};

/* One process and the file that it has open. */
struct process {
	const struct options *options;
	unsigned number;
	pid_t run; /* pid of the program: part of all its file names */
	const char *data;
	uint64_t created;  /* owc: files so far */
	uint64_t position; /* aw: in the file */
	int fd;
	char path[PATH_MAX];
};

static double
seconds (clockid_t clock)
{
	struct timespec now;

	clock_gettime (clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* From now to a moment since the epoch; 0 when it has passed. */
static double
until (double at)
{
	double left = at - seconds (CLOCK_REALTIME);
	return left > 0 ? left : 0;
}

static void
compute (double pause)
{
	struct timespec rest = { .tv_sec = (time_t)pause };

	rest.tv_nsec = (long)((pause - (double)rest.tv_sec) * 1e9);
	while (nanosleep (&rest, &rest) < 0 && errno == EINTR)
		;
}

/* ---- one process ---------------------------------------------------------- */

static _Noreturn void
fail (const char *path, const char *what)
{
	fprintf (stderr, "writer: %s: %s: %s\n", path, what, strerror (errno));
	_exit (EXIT_FAILURE);
}

static void
name_file (struct process *process, uint64_t number)
{
	const struct options *options = process->options;
	const char *directory
	    = options->directories[process->number % options->directory_count];

	if (snprintf (process->path, sizeof process->path, "%s/%s.%d.%u.%" PRIu64,
		      directory, pattern_names[options->pattern], (int)process->run,
		      process->number, number)
	    >= (int)sizeof process->path) {
		errno = ENAMETOOLONG;
		fail (directory, "name a file");
	}
}

/* A file of that name would make an overwrite of what should be a creation. */
static void
open_file (struct process *process, uint64_t number)
{
	name_file (process, number);
	process->fd = open (process->path, O_CREAT | O_EXCL | O_WRONLY, 0644);
	if (process->fd < 0)
		fail (process->path, "create");
}

static void
write_chunk (struct process *process)
{
	uint64_t done = 0;

	while (done < process->options->chunk) {
		ssize_t count = write (process->fd, process->data + done,
				       process->options->chunk - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			fail (process->path, "write");
		done += (uint64_t)count;
	}
}

static void
flush_file (struct process *process)
{
	if (fsync (process->fd) < 0)
		fail (process->path, "fsync");
}

static void
close_file (struct process *process)
{
	if (close (process->fd) < 0)
		fail (process->path, "close");
}

static void
come_round (struct process *process)
{
	uint64_t ring = process->options->ring;

	if (ring && process->position + process->options->chunk > ring) {
		if (lseek (process->fd, 0, SEEK_SET) < 0)
			fail (process->path, "seek");
		process->position = 0;
	}
	process->position += process->options->chunk;
}

static void
operate (struct process *process)
{
	switch (process->options->pattern) {
	case OWC:
		open_file (process, process->created++);
		write_chunk (process);
		flush_file (process);
		close_file (process);
		break;
	case WS:
		if (lseek (process->fd, 0, SEEK_SET) < 0)
			fail (process->path, "seek");
		write_chunk (process);
		flush_file (process);
		break;
	case AW:
	case PATTERNS:
		come_round (process);
		write_chunk (process);
		break;
	}
}

static uint64_t
volume_of (const struct options *options, unsigned burst)
{
	return options->volumes[burst % options->volume_count];
}

/* At most at the rate: sleep after each chunk until it would have taken as long. */
static void
write_burst (struct process *process, unsigned burst)
{
	const struct options *options = process->options;
	double began = seconds (CLOCK_MONOTONIC), ahead;

	for (uint64_t done = 0; done < volume_of (options, burst); done += options->chunk) {
		if (options->rate) {
			ahead = (double)done / (double)options->rate
				- (seconds (CLOCK_MONOTONIC) - began);
			compute (ahead > 0 ? ahead : 0);
		}
		operate (process);
	}
	if (options->flush)
		flush_file (process);
}

static void
finish (struct process *process)
{
	if (process->options->pattern != OWC)
		close_file (process);
}

static void
remove_files (struct process *process)
{
	uint64_t count = process->options->pattern == OWC ? process->created : 1;

	for (uint64_t number = 0; number < count; number++) {
		name_file (process, number);
		if (unlink (process->path) < 0)
			fail (process->path, "remove");
	}
}

/* Contents that no file system can compress, thin out or share. */
static char *
random_data (uint64_t size, uint64_t seed)
{
	uint64_t state = 88172645463325252u ^ (seed << 17);
	uint64_t *words = malloc (size + sizeof *words);

	if (!words)
		fail ("chunk", "allocate");
	for (uint64_t i = 0; i < size / sizeof *words + 1; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		words[i] = state;
	}
	return (char *)words;
}

static _Noreturn void
run_process (const struct options *options, unsigned number, pid_t run,
	     struct meeting *meeting)
{
	struct process process = { .options = options, .number = number, .run = run };
	char *data = random_data (options->chunk, (uint64_t)run + number);

	process.data = data;
	compute (options->at > 0 ? until (options->at) : 0);
	for (unsigned burst = 0; burst < options->bursts; burst++) {
		if (burst > 0)
			compute (options->pause);
		pthread_barrier_wait (&meeting->barrier);
		if (number == 0) {
			if (burst == 0)
				meeting->started = seconds (CLOCK_REALTIME);
			meeting->bursts[burst].start = seconds (CLOCK_MONOTONIC);
		}
		if (burst == 0 && options->pattern != OWC)
			open_file (&process, 0);
		write_burst (&process, burst);
		if (burst == options->bursts - 1)
			finish (&process);
		pthread_barrier_wait (&meeting->barrier);
		if (number == 0)
			meeting->bursts[burst].end = seconds (CLOCK_MONOTONIC);
	}
	if (options->remove)
		remove_files (&process);
	free (data);
	_exit (EXIT_SUCCESS);
}

/* ---- the program ---------------------------------------------------------- */

/* Processes end with the program, however that ends. */
static void
start_processes (const struct options *options, struct meeting *meeting, pid_t *pids)
{
	pid_t run = getpid ();

	for (unsigned number = 0; number < options->processes; number++) {
		pids[number] = fork ();
		if (pids[number] < 0)
			fail ("process", "fork");
		if (pids[number] == 0) {
			prctl (PR_SET_PDEATHSIG, SIGKILL);
			if (getppid () != run)
				_exit (EXIT_FAILURE);
			run_process (options, number, run, meeting);
		}
	}
}

/* When one process fails, the others would wait for it at the barrier for ever. */
static bool
wait_for_processes (const struct options *options, const pid_t *pids)
{
	bool succeeded = true;
	int status;

	while (wait (&status) > 0) {
		if (status == 0 || !succeeded)
			continue;
		succeeded = false;
		for (unsigned number = 0; number < options->processes; number++)
			kill (pids[number], SIGKILL);
	}
	return succeeded;
}

static void
report (const struct options *options, const struct meeting *meeting)
{
	double start = meeting->bursts[0].start;
	uint64_t bytes = 0;
	double io = 0;

	for (unsigned i = 0; i < options->bursts; i++) {
		bytes += volume_of (options, i) * options->processes;
		io += meeting->bursts[i].end - meeting->bursts[i].start;
	}
	printf ("{\"pattern\": \"%s\", \"chunk_bytes\": %" PRIu64 ", \"processes\": %u, "
		"\"bytes\": %" PRIu64 ", \"operations\": %" PRIu64 ", \"started\": %.3f, "
		"\"wall_seconds\": %.4f, \"io_seconds\": %.4f, \"bursts\": [",
		pattern_names[options->pattern], options->chunk, options->processes, bytes,
		bytes / options->chunk, meeting->started,
		meeting->bursts[options->bursts - 1].end - start, io);
	for (unsigned i = 0; i < options->bursts; i++)
		printf ("%s{\"offset_seconds\": %.4f, \"seconds\": %.4f, "
			"\"bytes\": %" PRIu64 "}",
			i ? ", " : "", meeting->bursts[i].start - start,
			meeting->bursts[i].end - meeting->bursts[i].start,
			volume_of (options, i) * options->processes);
	printf ("]}\n");
}

/* ---- the command line ----------------------------------------------------- */

static _Noreturn void
reject (const char *option, const char *text)
{
	fprintf (stderr, "writer: %s: not valid: %s\n%s", option, text, usage);
	exit (2);
}

static uint64_t
parse_bytes (const char *option, const char *text)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	unsigned shift = 0;
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull (text, &end, 10);
	if (*end && (suffix = strchr (suffixes, *end))) {
		shift = 10 * (unsigned)(suffix - suffixes + 1);
		end++;
	}
	if (errno || *end || *text < '0' || *text > '9' || value == 0
	    || value > (UINT64_MAX >> 20) >> shift)
		reject (option, text);
	return (uint64_t)value << shift;
}

static void
parse_volumes (char *text, struct options *options)
{
	char *rest = text, *one;

	options->volume_count = 0;
	while ((one = strsep (&rest, ",")))
		if (options->volume_count < MAX_VOLUMES)
			options->volumes[options->volume_count++]
			    = parse_bytes ("--volume", one);
		else
			reject ("--volume", "too many");
}

static unsigned
parse_count (const char *option, const char *text, unsigned most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul (text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || value == 0 || value > most)
		reject (option, text);
	return (unsigned)value;
}

static double
parse_seconds (const char *option, const char *text)
{
	char *end;
	double value = strtod (text, &end);

	if (end == text || *end || !(value >= 0 && value < 1e12))
		reject (option, text);
	return value;
}

static enum pattern
parse_pattern (const char *text)
{
	for (int i = 0; i < PATTERNS; i++)
		if (strcmp (text, pattern_names[i]) == 0)
			return (enum pattern)i;
	reject ("--pattern", text);
}

static struct options
parse_options (int argc, char **argv)
{
	static const struct option known[] = {
		{ "pattern", required_argument, NULL, 'p' },
		{ "volume", required_argument, NULL, 'v' },
		{ "chunk", required_argument, NULL, 'c' },
		{ "processes", required_argument, NULL, 'n' },
		{ "bursts", required_argument, NULL, 'b' },
		{ "pause", required_argument, NULL, 's' },
		{ "at", required_argument, NULL, 'a' },
		{ "rate", required_argument, NULL, 'R' },
		{ "ring", required_argument, NULL, 'g' },
		{ "flush", no_argument, NULL, 'f' },
		{ "remove", no_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options
	    = { .pattern = PATTERNS, .chunk = 1 << 20, .processes = 1, .bursts = 1 };
	int letter;

	while ((letter = getopt_long (argc, argv, "", known, NULL)) != -1) {
		switch (letter) {
		case 'p':
			options.pattern = parse_pattern (optarg);
			break;
		case 'v':
			parse_volumes (optarg, &options);
			break;
		case 'c':
			options.chunk = parse_bytes ("--chunk", optarg);
			break;
		case 'n':
			options.processes
			    = parse_count ("--processes", optarg, MAX_PROCESSES);
			break;
		case 'b':
			options.bursts = parse_count ("--bursts", optarg, MAX_BURSTS);
			break;
		case 's':
			options.pause = parse_seconds ("--pause", optarg);
			break;
		case 'a':
			options.at = parse_seconds ("--at", optarg);
			break;
		case 'R':
			options.rate = parse_bytes ("--rate", optarg);
			break;
		case 'g':
			options.ring = parse_bytes ("--ring", optarg);
			break;
		case 'f':
			options.flush = true;
			break;
		case 'r':
			options.remove = true;
			break;
		case 'h':
			fputs (usage, stdout);
			exit (EXIT_SUCCESS);
		default:
			fputs (usage, stderr);
			exit (2);
		}
	}
	options.directories = argv + optind;
	options.directory_count = (unsigned)(argc - optind);
	if (options.pattern == PATTERNS)
		reject ("--pattern", "missing");
	if (options.volume_count == 0)
		reject ("--volume", "missing");
	for (unsigned i = 0; i < options.volume_count; i++)
		if (options.volumes[i] % options.chunk != 0)
			reject ("--volume", "no multiple of the chunk");
	if (options.flush && options.pattern != AW)
		reject ("--flush", "owc and ws flush every chunk");
	if (options.ring && options.pattern != AW)
		reject ("--ring", "owc and ws do not append");
	if (options.directory_count == 0)
		reject ("DIRECTORY", "missing");
	return options;
}

int
main (int argc, char **argv)
{
	struct options options = parse_options (argc, argv);
	struct meeting *meeting = arrange_meeting (sizeof *meeting, options.processes);
	pid_t pids[MAX_PROCESSES];

	if (!meeting)
		fail ("shared memory", "map");
	start_processes (&options, meeting, pids);
	if (!wait_for_processes (&options, pids))
		return EXIT_FAILURE;
	report (&options, meeting);
	return EXIT_SUCCESS;
}
