#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { MOST_NAMED = 100 };

struct text {
	char *out;
	size_t used;
};

static void put (struct text *text, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* What does not fit is cut off, which readers notice: it is no JSON. */
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
	for (const unsigned char *p = (const unsigned char *)string; *p; p++)
		if (*p == '"' || *p == '\\' || *p < ' ' || *p >= 0x7f)
			put (text, "\\u%04x", *p);
		else
			put (text, "%c", *p);
	put (text, "\"");
}

static void
put_failing (struct text *text, const char *error, int64_t now)
{
	put (text, "\"failing\":{");
	if (error[0]) {
		put (text, "\"files\":{\"text\":");
		put_string (text, error);
		put (text, ",\"since\":%" PRId64 "}", now);
	}
	put (text, "},");
}

static void
put_held (struct text *text, const struct jobs *jobs, const struct report_facts *facts,
	  int64_t now)
{
	struct jobs_held held[MOST_NAMED];
	uint32_t n = jobs_list_held (jobs, held, MOST_NAMED);
	put (text, "\"named\":{\"held\":{");
	for (uint32_t i = 0; i < n; i++) {
		put (text, "%s\"%u\":{\"text\":\"%.1f s in %u holds", i ? "," : "",
		     held[i].job_id, held[i].seconds, held[i].holds);
		if (held[i].sake)
			put (text, ", last for the sake of job %u", held[i].sake);
		put (text, "\",\"since\":%" PRId64 "}",
		     now - (int64_t)(facts->clock - held[i].since));
	}
	put (text, "}},");
}

static void
put_counts (struct text *text, const struct jobs_counts *counts)
{
	const char *comma = "";
	put (text, "\"counts\":{");
#define PUT(name, meaning)                                                                 \
	put (text, "%s\"%s\":%.0f", comma, #name, counts->name);                           \
	comma = ",";
	JOBS_COUNTS (PUT)
#undef PUT
	put (text, "},");
}

void
report_write (const struct jobs *jobs, const struct report_facts *facts,
	      char out[REPORT_SIZE])
{
	struct text text = { out, 0 };
	int64_t now = (int64_t)time (NULL);
	put (&text, "{");
	put_failing (&text, facts->error, now);
	put_held (&text, jobs, facts, now);
	put_counts (&text, jobs_counts (jobs));
	put (&text,
	     "\"facts\":{\"mode\":\"%s\",\"pid\":%d,\"agents\":%u,\"refused_agents\":"
	     "%" PRIu64 ",\"jobs\":%u,\"active\":%u,\"holding\":%u}}",
	     facts->mode, (int)getpid (), facts->agents, facts->refused, jobs_count (jobs),
	     jobs_active_count (jobs), jobs_holding_count (jobs));
}
