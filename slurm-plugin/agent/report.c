#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

enum { MOST_NAMED = 100 };

static void
put_failing (struct json *json, const char *error, int64_t now)
{
	json_put (json, "\"failing\":{");
	if (error[0]) {
		json_put (json, "\"files\":{\"text\":");
		json_put_string (json, error);
		json_put (json, ",\"since\":%" PRId64 "}", now);
	}
	json_put (json, "},");
}

static void
put_held (struct json *json, const struct jobs *jobs, const struct report_facts *facts,
	  int64_t now)
{
	struct jobs_held held[MOST_NAMED];
	uint32_t n = jobs_list_held (jobs, held, MOST_NAMED);
	json_put (json, "\"named\":{\"held\":{");
	for (uint32_t i = 0; i < n; i++) {
		json_put (json, "%s\"%u\":{\"text\":\"%.1f s in %u holds", i ? "," : "",
			  held[i].job_id, held[i].seconds, held[i].holds);
		if (held[i].sake)
			json_put (json, ", last for the sake of job %u", held[i].sake);
		json_put (json, "\",\"since\":%" PRId64 "}",
			  now - (int64_t)(facts->clock - held[i].since));
	}
	json_put (json, "}},");
}

static void
put_counts (struct json *json, const struct jobs_counts *counts)
{
	const char *comma = "";
	json_put (json, "\"counts\":{");
#define PUT(name, meaning)                                                                 \
	json_put (json, "%s\"%s\":%.0f", comma, #name, counts->name);                      \
	comma = ",";
	JOBS_COUNTS (PUT)
#undef PUT
	json_put (json, "},");
}

void
report_write (const struct jobs *jobs, const struct report_facts *facts,
	      char out[REPORT_SIZE])
{
	struct json json = { out, REPORT_SIZE, 0 };
	int64_t now = (int64_t)time (NULL);
	json_put (&json, "{");
	put_failing (&json, facts->error, now);
	put_held (&json, jobs, facts, now);
	put_counts (&json, jobs_counts (jobs));
	json_put (&json,
		  "\"facts\":{\"mode\":\"%s\",\"pid\":%d,\"agents\":%u,\"refused_agents\":"
		  "%" PRIu64 ",\"jobs\":%u,\"active\":%u,\"holding\":%u}}",
		  facts->mode, (int)getpid (), facts->agents, facts->refused,
		  jobs_count (jobs), jobs_active_count (jobs), jobs_holding_count (jobs));
}
