#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "slurm_api.h"

/* JSON that grows in a buffer; what does not fit is cut off, which the reader
 * notices because the closing brace is missing. */
struct text {
	char *out;
	size_t used;
};

static void put (struct text *text, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

static void
put (struct text *text, const char *format, ...)
{
	size_t room = REPORT_SIZE - text->used;
	va_list args;
	va_start (args, format);
	int n = vsnprintf (text->out + text->used, room, format, args);
	va_end (args);
	if (n > 0)
		text->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void
put_string (struct text *text, const char *string)
{
	put (text, "\"");
	for (const unsigned char *p = (const unsigned char *)string; *p; p++) {
		if (*p == '"' || *p == '\\')
			put (text, "\\%c", *p);
		else if (*p < ' ' || *p >= 0x7f)
			put (text, "\\u%04x", *p);
		else
			put (text, "%c", *p);
	}
	put (text, "\"");
}

static void
put_counts (struct text *text, const char *key, _Atomic uint64_t *counts, unsigned int n,
	    const char *(*name) (unsigned int))
{
	const char *comma = "";
	put (text, "\"%s\":{", key);
	for (unsigned int i = 0; i < n; i++) {
		put (text, "%s\"%s\":%" PRIu64, comma, name (i), counts[i]);
		comma = ",";
	}
	put (text, "},");
}

static void
put_file (struct text *text, const char *key, const struct file_status *file)
{
	put (text, "\"%s\":{\"path\":", key);
	put_string (text, file->path);
	put (text,
	     ",\"loaded\":%s,\"checksum\":\"%016" PRIx64 "\",\"created\":%" PRId64
	     ",\"since\":%" PRId64 ",\"error\":",
	     file->loaded ? "true" : "false", file->checksum, file->created, file->since);
	put_string (text, file->error);
	put (text, "},");
}

/* counting_since: all numbers of the report go on at a restart, but for ring.last. */
static void
put_spool (struct text *text, struct spool *spool)
{
	struct spool_status status;
	spool_get_status (spool, &status);
	put (text, "\"counting_since\":%" PRId64 ",\"spool\":{\"path\":", status.since);
	put_string (text, status.path);
	put (text, ",\"error\":");
	put_string (text, status.error);
	put (text, "},");
}

static void
put_library (struct text *text, const struct library *library)
{
	const struct stat *loaded = &library->loaded;
	put (text, "\"library\":{\"path\":");
	put_string (text, library->path);
	put (text, ",\"device\":%ju,\"inode\":%ju,\"size\":%jd,\"mtime_ns\":%" PRId64 "},",
	     (uintmax_t)loaded->st_dev, (uintmax_t)loaded->st_ino,
	     (intmax_t)loaded->st_size,
	     (int64_t)loaded->st_mtim.tv_sec * 1000000000 + loaded->st_mtim.tv_nsec);
}

static void
put_histogram (struct text *text, const char *key, struct histogram *histogram)
{
	const char *comma = "";
	uint64_t total = 0;
	put (text, "\"%s\":{\"buckets\":[", key);
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = histogram->count[i];
		if (n == 0)
			continue;
		put (text, "%s[%" PRIu64 ",%" PRIu64 "]", comma, histogram_upper (i), n);
		comma = ",";
		total += n;
	}
	put (text, "],\"count\":%" PRIu64 ",\"max\":%" PRIu64 "}", total, histogram->max);
}

size_t
report_write (const struct report_sources *sources, const char *socket_path,
	      const char *socket_error, char out[REPORT_SIZE])
{
	struct text text = { out, 0 };
	struct counters *counters = sources->counters;
	struct ring_state ring = ring_state (sources->ring);
	struct file_status files[FILE_COUNT];
	uint32_t mode = SLUICE_MODE_OFF;

	loader_get_status (sources->loader, files);
	const struct view *view = loader_acquire (sources->loader);
	if (view)
		mode = view->config.mode;
	loader_release (sources->loader);

	put (&text, "{\"version\":\"%s\",\"slurm_version\":\"%u.%02u.%u\",", SLUICE_VERSION,
	     SLURM_VERSION_NUMBER >> 16, SLURM_VERSION_NUMBER >> 8 & 0xff,
	     SLURM_VERSION_NUMBER & 0xff);
	put (&text, "\"boot\":\"%016" PRIx64 "\",\"pid\":%d,\"mode\":\"%s\",",
	     sources->boot, (int)getpid (), sluice_mode_name (mode));
	put (&text,
	     "\"submissions\":%" PRIu64 ",\"modifications\":%" PRIu64
	     ",\"decided\":%" PRIu64 ",\"repeated\":%" PRIu64 ",\"notes\":%" PRIu64 ",",
	     counters->submissions, counters->modifications, counters->decided,
	     counters->repeated, counters->notes);
	put_counts (&text, "actions", counters->actions, SLUICE_ACTION_COUNT,
		    sluice_action_name);
	put_counts (&text, "reasons", counters->reasons, SLUICE_REASON_COUNT,
		    sluice_reason_name);
	put_counts (&text, "grants", counters->grants, SLUICE_GRANT_COUNT,
		    sluice_grant_name);
	put (&text,
	     "\"stripped\":%" PRIu64 ",\"opt_outs\":{\"option\":%" PRIu64
	     ",\"update\":%" PRIu64 "},",
	     counters->stripped, counters->reasons[SLUICE_REASON_OPTED_OUT],
	     counters->opt_outs);
	put (&text,
	     "\"ring\":{\"size\":%" PRIu32 ",\"used\":%" PRIu32 ",\"dropped\":%" PRIu64
	     ",\"lost\":%" PRIu64 ",\"last\":%" PRIu64 "},",
	     ring.size, ring.used, ring.dropped, ring.lost, ring.last);
	put_spool (&text, sources->spool);
	put_library (&text, sources->library);
	put_file (&text, "config", &files[FILE_CONFIG]);
	put_file (&text, "bundle", &files[FILE_BUNDLE]);
	put_file (&text, "snapshot", &files[FILE_SNAPSHOT]);
	put (&text, "\"socket\":{\"path\":");
	put_string (&text, socket_path);
	put (&text, ",\"error\":");
	put_string (&text, socket_error);
	put (&text, "},\"cpu_ns\":{");
	put_histogram (&text, "known", &counters->known);
	put (&text, ",");
	put_histogram (&text, "forest", &counters->forest);
	put (&text, ",");
	put_histogram (&text, "all", &counters->all);
	put (&text, "}}\n");
	return text.used;
}
