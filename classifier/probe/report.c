#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

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
