#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

enum { MAX_NAMED = 100 };

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

/* UTC s of a moment on the coordinator's clock. */
static int64_t
moment (const struct status_facts *facts, double clock)
{
	return (int64_t)((double)time (NULL) - (facts->clock - clock));
}

static void
put_lanes (struct json *json, const struct sluice_policy *policy, uint32_t mask)
{
	const char *comma = " on ";
	for (uint32_t i = 0; policy && mask && i < policy->lane_count; i++)
		if (mask >> i & 1) {
			json_put (json, "%s%s", comma, policy->lanes[i].name);
			comma = ",";
		}
}

/* In a lane's name only letters, digits and _ stand. */
static void
put_bursts (struct json *json, const struct active_burst *active, uint32_t n,
	    const struct status_facts *facts)
{
	json_put (json, "\"bursts\":{");
	for (uint32_t i = 0; i < n; i++) {
		const struct active_burst *burst = &active[i];
		json_put (json, "%s\"%u\":{\"text\":\"", i ? "," : "", burst->job_id);
		if (burst->reason == SLUICE_TURN_TRIAL)
			json_put (json, "writes on trial, to see whether holds help");
		else if (burst->reason == SLUICE_TURN_NO_HELP)
			json_put (json, "writes, because holds do not help");
		else if (burst->reason == SLUICE_TURN_STRETCH)
			json_put (json, "writes for a moment, after a hold of TurnsHold");
		else if (burst->share >= 1.0)
			json_put (json, "writes");
		else if (burst->share > 0.0)
			json_put (json, "slowed to %.0f %%", 100.0 * burst->share);
		else
			json_put (json, "held");
		put_lanes (json, facts->policy, burst->lane_mask);
		if (burst->share < 1.0 && burst->first)
			json_put (json, " behind job %u", burst->first);
		json_put (json, "\",\"since\":%" PRId64 "}", moment (facts, burst->since));
	}
	json_put (json, "}");
}

/* By job: bytes and operations a second, and since when it has been in a burst. */
static void
put_rates (struct json *json, const struct active_burst *active, uint32_t n,
	   const struct status_facts *facts)
{
	json_put (json, "\"rates\":{");
	for (uint32_t i = 0; i < n; i++)
		json_put (json, "%s\"%u\":[%.0f,%.0f,%" PRId64 "]", i ? "," : "",
			  active[i].job_id, active[i].bytes, active[i].operations,
			  moment (facts, active[i].began));
	json_put (json, "},");
}

static void
put_silent (struct json *json, const struct bursts *bursts,
	    const struct status_facts *facts)
{
	static struct silent_job silent[MAX_NAMED];
	uint32_t n = bursts_list_silent (bursts, silent, MAX_NAMED);
	json_put (json, "\"unseen\":{");
	for (uint32_t i = 0; i < n; i++)
		json_put (json,
			  "%s\"%u\":{\"text\":\"no write yet\",\"since\":%" PRId64 "}",
			  i ? "," : "", silent[i].job_id, moment (facts, silent[i].since));
	json_put (json, "}");
}

static void
put_lost (struct json *json, const struct status_facts *facts)
{
	struct agents_lost lost[AGENTS_MAX_LOST];
	uint32_t n = agents_list_lost (facts->agents, lost);
	json_put (json, "\"lost\":{");
	for (uint32_t i = 0; i < n; i++) {
		json_put (json, "%s", i ? "," : "");
		json_put_string (json, lost[i].address);
		json_put (json, ":{\"text\":\"no connection\",\"since\":%" PRId64 "}",
			  moment (facts, lost[i].since));
	}
	json_put (json, "}");
}

/* Of lanes that were learned to do other than their Bandwidth. */
static void
put_scales (struct json *json, const struct bursts *bursts,
	    const struct status_facts *facts)
{
	const char *comma = "";
	json_put (json, "\"lanes\":{");
	for (uint32_t i = 0; facts->policy && i < facts->policy->lane_count; i++) {
		double percent = 100.0 * bursts_lane_scale (bursts, i);
		if (percent >= 99.5 && percent < 100.5)
			continue;
		json_put (json,
			  "%s\"%s\":{\"text\":\"does %.0f %% of its Bandwidth\","
			  "\"since\":%" PRId64 "}",
			  comma, facts->policy->lanes[i].name, percent,
			  moment (facts, facts->clock));
		comma = ",";
	}
	json_put (json, "}");
}

static void
put_named (struct json *json, const struct bursts *bursts, const struct status_facts *facts)
{
	static struct active_burst active[MAX_NAMED];
	uint32_t n = bursts_list (bursts, facts->clock, active, MAX_NAMED);
	put_rates (json, active, n, facts);
	json_put (json, "\"named\":{");
	put_bursts (json, active, n, facts);
	json_put (json, ",");
	put_silent (json, bursts, facts);
	json_put (json, ",");
	put_lost (json, facts);
	json_put (json, ",");
	put_scales (json, bursts, facts);
	json_put (json, "},");
}

static void
put_counts (struct json *json, const struct bursts_counts *counts)
{
	const char *comma = "";
	json_put (json, "\"counts\":{");
#define PUT(name, meaning)                                                                 \
	json_put (json, "%s\"%s\":%.0f", comma, #name, counts->name);                      \
	comma = ",";
	BURSTS_COUNTS (PUT)
#undef PUT
	json_put (json, "},");
}

void
status_write (const struct bursts *bursts, const struct status_facts *facts,
	      char out[STATUS_SIZE])
{
	struct json json = { out, STATUS_SIZE, 0 };
	int64_t now = (int64_t)time (NULL);
	json_put (&json, "{");
	put_failing (&json, facts->error, now);
	put_named (&json, bursts, facts);
	put_counts (&json, bursts_counts (bursts));
	json_put (&json,
		  "\"facts\":{\"mode\":\"%s\",\"pid\":%d,\"agents\":%u,\"refused_agents\":"
		  "%" PRIu64 ",\"jobs\":%u,\"active\":%u,\"holding\":%u,\"unkept\":%" PRIu64
		  "}}",
		  facts->mode, (int)getpid (), agents_count (facts->agents),
		  agents_refused (facts->agents), bursts_job_count (bursts),
		  bursts_active_count (bursts), bursts_holding_count (bursts), facts->lost);
}
