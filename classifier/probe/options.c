#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "tally.h"

static const char *const pattern_names[PATTERNS]
    = { "owc", "ws", "aw", "read", "metadata" };
static const char *const sync_names[SYNCS] = { "none", "close", "each" };

enum { DIRECT_ALIGNMENT = 4096 };
static const uint64_t default_read_size = 64 << 20;

static const char help[]
    = "Usage: sluice-probe --pattern NAME (--duration S | --volume BYTES) [OPTIONS] "
      "DIRECTORY...\n"
      "\n"
      "Do the I/O of a small parallel program and say what it got in each slice of\n"
      "wall-clock time, so that two of them can be laid side by side.\n"
      "\n"
      "What it does\n"
      "  --pattern NAME     owc       loop { create a new file, write a chunk, flush, "
      "close }\n"
      "                     ws        open; loop { seek to 0, write a chunk, flush }; "
      "close\n"
      "                     aw        open; loop { append a chunk }; close\n"
      "                     read      open; loop { read a chunk }; close: past the cache\n"
      "                               by direct I/O, or dropped from it at each open "
      "where\n"
      "                               the file system or the chunk cannot; the report "
      "says\n"
      "                               which\n"
      "                     metadata  loop { create, stat, unlink } of empty files\n"
      "                     owc+aw+aw mixed: processes are dealt to the parts in turn\n"
      "  --chunk BYTES      moved by one operation (default 1M)\n"
      "  --processes N      that this probe starts (default 1)\n"
      "  --files N          ws, aw, read: files of a process, used in turn (default 1)\n"
      "  --shared           ws, aw, read: one file for all processes, each its own chunks\n"
      "  --sync WHEN        each, close or none: fsync after every chunk, before the last\n"
      "                     close, or never (default: each for owc and ws, none for aw)\n"
      "  --direct           bypass the page cache (chunks of a multiple of 4K)\n"
      "  --from DIRECTORY   read: files that another client left there with --keep;\n"
      "                     otherwise files of its own\n"
      "  --file-size BYTES  aw, read: begin a file anew after so many (default: aw never,\n"
      "                     read 64M)\n"
      "\n"
      "How long\n"
      "  --duration S       stop after so many seconds\n"
      "  --volume BYTES     stop when every process has moved so many; with both, what\n"
      "                     comes first\n"
      "  --start INSTANT    all begin then (seconds since the epoch); default: when ready\n"
      "  --on S --off S     work and rest in turn, from the start on\n"
      "\n"
      "Where\n"
      "  DIRECTORY...       process p works in directory p modulo their number, always in\n"
      "                     a fresh directory of the probe's own, removed at the end\n"
      "  --keep             do not remove it; the report names it\n"
      "  --leave PERCENT    stop rather than leave less of a file system free (default "
      "10)\n"
      "\n"
      "  --slice S          length of a slice (default 0.1)\n"
      "  --help, --version\n"
      "\n"
      "BYTES may end in K, M, G or T (powers of 1024).\n"
      "\n"
      "Report, as JSON lines: one object of type \"run\" (what was asked for), one of "
      "type\n"
      "\"slice\" for each slice (time, bytes, operations, latency quantiles in seconds),\n"
      "one of type \"total\".\n"
      "\n"
      "SIGUSR1 ends it in good order before its time, with the report.\n"
      "\n"
      "Exit code: 0 done, 1 an operation failed, 2 wrong usage, 3 it would have filled a\n"
      "file system, 4 the instant of --start had passed, 128+N stopped by signal N. All\n"
      "but --keep leave nothing behind.\n"
      "\n"
      "Examples\n"
      "  What does a checkpoint of 4 processes get here?\n"
      "    sluice-probe --pattern aw --processes 4 --volume 1G /scratch/me\n"
      "  Two programs against each other, from the same instant:\n"
      "    at=$(($(date +%s) + 2))\n"
      "    sluice-probe --pattern owc --duration 10 --start $at /scratch/me > probe &\n"
      "    sluice-probe --pattern aw --duration 12 --start $at /scratch/me > signal; wait\n"
      "  On many nodes of a cluster (each task reports by itself):\n"
      "    srun --nodes 8 --ntasks-per-node 1 sluice-probe --pattern ws --processes 16 \\\n"
      "         --duration 30 --start $(($(date +%s) + 10)) /scratch/me\n";

static _Noreturn void
reject (const char *option, const char *reason)
{
	give_up (EXIT_USAGE, "%s: %s; see sluice-probe --help", option, reason);
}

const char *
pattern_name (enum pattern pattern)
{
	return pattern_names[pattern];
}

const char *
sync_name (enum sync sync)
{
	return sync_names[sync];
}

enum pattern
pattern_of (const struct options *options, unsigned number)
{
	return options->parts[number % options->part_count];
}

enum sync
sync_of (const struct options *options, enum pattern pattern)
{
	if (options->sync_given)
		return options->sync;
	return pattern == OWC || pattern == WS ? SYNC_EACH : SYNC_NONE;
}

uint64_t
file_size_of (const struct options *options, enum pattern pattern)
{
	uint64_t chunks = (default_read_size + options->chunk - 1) / options->chunk;

	if (options->file_size)
		return options->file_size;
	return pattern == READ ? chunks * options->chunk : 0;
}

bool
has_part (const struct options *options, enum pattern pattern)
{
	for (unsigned i = 0; i < options->part_count; i++)
		if (options->parts[i] == pattern)
			return true;
	return false;
}

bool
is_aligned (const struct options *options)
{
	return options->chunk % DIRECT_ALIGNMENT == 0;
}

/* ---- values ---------------------------------------------------------------- */

static uint64_t
parse_bytes (const char *option, const char *text)
{
	static const char suffixes[] = "KMGT";
	const char *suffix;
	unsigned shift = 0;
	char *end;

	errno = 0;
	unsigned long long value = strtoull (text, &end, 10);
	if (*end && (suffix = strchr (suffixes, *end))) {
		shift = 10 * (unsigned)(suffix - suffixes + 1);
		end++;
	}
	if (errno || *end || *text < '0' || *text > '9' || value == 0
	    || value > (UINT64_MAX >> 16) >> shift)
		reject (option, "not a number of bytes like 4096, 64K or 1M");
	return (uint64_t)value << shift;
}

static unsigned
parse_count (const char *option, const char *text, unsigned most)
{
	char *end;

	errno = 0;
	unsigned long value = strtoul (text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || value == 0 || value > most)
		give_up (EXIT_USAGE, "%s: not a number from 1 to %u: %s", option, most,
			 text);
	return (unsigned)value;
}

static double
parse_number (const char *option, const char *text, double most)
{
	char *end;
	double value = strtod (text, &end);

	if (end == text || *end || !(value >= 0 && value <= most))
		give_up (EXIT_USAGE, "%s: not a number from 0 to %.15g: %s", option, most,
			 text);
	return value;
}

static int
index_of (const char *const *names, int count, const char *text, size_t length)
{
	for (int i = 0; i < count; i++)
		if (strlen (names[i]) == length && strncmp (names[i], text, length) == 0)
			return i;
	return -1;
}

static void
parse_pattern (struct options *options, const char *text)
{
	options->part_count = 0;
	for (const char *part = text;;) {
		size_t length = strcspn (part, "+");
		int found = index_of (pattern_names, PATTERNS, part, length);

		if (found < 0)
			reject ("--pattern", "not owc, ws, aw, read, metadata, or several "
					     "of them joined by +");
		if (options->part_count == MAX_PARTS)
			reject ("--pattern", "too many parts");
		options->parts[options->part_count++] = (enum pattern)found;
		if (!part[length])
			return;
		part += length + 1;
	}
}

static void
parse_sync (struct options *options, const char *text)
{
	int found = index_of (sync_names, SYNCS, text, strlen (text));

	if (found < 0)
		reject ("--sync", "not each, close or none");
	options->sync = (enum sync)found;
	options->sync_given = true;
}

/* ---- the whole -------------------------------------------------------------- */

static void
check_length (const struct options *options)
{
	if (options->volume == 0 && options->duration <= 0)
		reject ("--duration", "missing (or give --volume)");
	if (options->volume > 0 && options->duration <= 0 && has_part (options, METADATA))
		reject ("--duration", "missing: metadata operations move no bytes");
	if (options->volume % options->chunk)
		reject ("--volume", "no multiple of the chunk");
	if (options->duration / options->slice >= MAX_SLICES - 1)
		reject ("--slice", "too short for this --duration");
	if (options->off > 0 && options->on <= 0)
		reject ("--on", "missing, but --off is given");
}

static void
check_files (const struct options *options)
{
	int creates = has_part (options, OWC) || has_part (options, METADATA);

	if (options->directory_count == 0)
		reject ("DIRECTORY", "missing");
	if (options->directory_count > MAX_TARGETS)
		reject ("DIRECTORY", "too many");
	if (options->file_size % options->chunk)
		reject ("--file-size", "no multiple of the chunk");
	if (creates && options->shared)
		reject ("--shared", "owc and metadata make a file for every operation");
	if (creates && options->files > 1)
		reject ("--files", "owc and metadata make a file for every operation");
	if (options->shared && options->files > 1)
		reject ("--files", "not together with --shared");
	if (options->from && !has_part (options, READ))
		reject ("--from", "only for the pattern read");
	if (options->direct && !is_aligned (options))
		reject ("--direct", "the chunk is no multiple of 4K");
}

static _Noreturn void
show (const char *text)
{
	fputs (text, stdout);
	exit (EXIT_SUCCESS);
}

static void
take (struct options *options, int letter)
{
	switch (letter) {
	case 'p':
		parse_pattern (options, optarg);
		break;
	case 'c':
		options->chunk = parse_bytes ("--chunk", optarg);
		break;
	case 'n':
		options->processes = parse_count ("--processes", optarg, MAX_PROCESSES);
		break;
	case 'f':
		options->files = parse_count ("--files", optarg, MAX_FILES);
		break;
	case 'S':
		options->shared = true;
		break;
	case 's':
		parse_sync (options, optarg);
		break;
	case 'D':
		options->direct = true;
		break;
	case 'r':
		options->from = optarg;
		break;
	case 'z':
		options->file_size = parse_bytes ("--file-size", optarg);
		break;
	case 'd':
		options->duration = parse_number ("--duration", optarg, 1e6);
		break;
	case 'v':
		options->volume = parse_bytes ("--volume", optarg);
		break;
	case 't':
		options->start = parse_number ("--start", optarg, 1e11);
		break;
	case 'a':
		options->on = parse_number ("--on", optarg, 1e6);
		break;
	case 'b':
		options->off = parse_number ("--off", optarg, 1e6);
		break;
	case 'k':
		options->keep = true;
		break;
	case 'l':
		options->leave = parse_number ("--leave", optarg, 100.0) / 100.0;
		break;
	case 'i':
		options->slice = parse_number ("--slice", optarg, 1e4);
		if (options->slice < 0.001)
			reject ("--slice", "shorter than a millisecond");
		break;
	case 'h':
		show (help);
	case 'V':
		show ("sluice-probe " SLUICE_VERSION "\n");
	default:
		exit (EXIT_USAGE); /* getopt has said why */
	}
}

struct options
parse_options (int argc, char **argv)
{
	static const struct option known[] = {
		{ "pattern", required_argument, NULL, 'p' },
		{ "chunk", required_argument, NULL, 'c' },
		{ "processes", required_argument, NULL, 'n' },
		{ "files", required_argument, NULL, 'f' },
		{ "shared", no_argument, NULL, 'S' },
		{ "sync", required_argument, NULL, 's' },
		{ "direct", no_argument, NULL, 'D' },
		{ "from", required_argument, NULL, 'r' },
		{ "file-size", required_argument, NULL, 'z' },
		{ "duration", required_argument, NULL, 'd' },
		{ "volume", required_argument, NULL, 'v' },
		{ "start", required_argument, NULL, 't' },
		{ "on", required_argument, NULL, 'a' },
		{ "off", required_argument, NULL, 'b' },
		{ "keep", no_argument, NULL, 'k' },
		{ "leave", required_argument, NULL, 'l' },
		{ "slice", required_argument, NULL, 'i' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = {
		.chunk = 1 << 20,
		.processes = 1,
		.files = 1,
		.slice = 0.1,
		.leave = 0.1,
	};
	int letter;

	while ((letter = getopt_long (argc, argv, "", known, NULL)) != -1)
		take (&options, letter);
	options.directories = argv + optind;
	options.directory_count = (unsigned)(argc - optind);
	if (options.part_count == 0)
		reject ("--pattern", "missing");
	check_length (&options);
	check_files (&options);
	return options;
}
