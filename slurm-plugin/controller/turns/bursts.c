/* The table of jobs and of their parts on agents, and its lists for the status. */
#include "bursts_state.h"

#include <stdlib.h>
#include <string.h>

struct bursts *
bursts_create (bursts_send *send, bursts_send_place *send_place, void *sender)
{
	struct bursts *bursts = calloc (1, sizeof *bursts);
	if (bursts) {
		bursts->send = send;
		bursts->send_place = send_place;
		bursts->sender = sender;
		sluice_turns_check_init (&bursts->check, bursts_report_lag);
		sluice_turns_memory_init (&bursts->learned);
	}
	return bursts;
}

void
bursts_set_recorder (struct bursts *bursts, bursts_record *record, void *recorder)
{
	bursts->record = record;
	bursts->recorder = recorder;
}

static struct burst_job **
bucket_of (struct bursts *bursts, uint32_t job_id)
{
	return &bursts->buckets[(job_id * 0x9E3779B1u) >> 17];
}

struct burst_job *
bursts_find_job (struct bursts *bursts, uint32_t job_id)
{
	struct burst_job *job = *bucket_of (bursts, job_id);
	while (job && job->id != job_id)
		job = job->next_in_bucket;
	return job;
}

static struct burst_job *
make_job (struct bursts *bursts, uint32_t job_id)
{
	struct burst_job *job
	    = bursts->job_count < BURSTS_MAX_JOBS ? calloc (1, sizeof *job) : NULL;
	if (!job)
		return NULL;
	job->id = job->word.job_id = job_id;
	job->share = 1.0;
	job->next_in_bucket = *bucket_of (bursts, job_id);
	*bucket_of (bursts, job_id) = job;
	bursts->job_count++;
	return job;
}

struct burst_part *
bursts_find_part (const struct bursts_agent *agent, uint32_t job_id)
{
	struct burst_part *part = agent->parts;
	while (part && part->job->id != job_id)
		part = part->next_of_agent;
	return part;
}

static void
link_part (struct burst_part *part)
{
	struct burst_job *job = part->job;
	struct bursts_agent *agent = part->agent;
	part->next_of_job = job->parts;
	part->link_of_job = &job->parts;
	if (job->parts)
		job->parts->link_of_job = &part->next_of_job;
	job->parts = part;
	part->next_of_agent = agent->parts;
	part->link_of_agent = &agent->parts;
	if (agent->parts)
		agent->parts->link_of_agent = &part->next_of_agent;
	agent->parts = part;
	agent->part_count++;
}

struct burst_part *
bursts_make_part (struct bursts *bursts, struct bursts_agent *agent, uint32_t job_id)
{
	struct burst_job *job = bursts_find_job (bursts, job_id);
	struct burst_part *part = NULL;
	if (bursts->part_count < BURSTS_MAX_PARTS
	    && agent->part_count < BURSTS_MAX_PARTS_OF_AGENT
	    && (job || (job = make_job (bursts, job_id))))
		part = calloc (1, sizeof *part);
	if (!part) {
		bursts->counts.no_room++;
		return NULL;
	}
	part->job = job;
	part->agent = agent;
	link_part (part);
	bursts->part_count++;
	return part;
}

void
bursts_unlink_part (struct burst_part *part)
{
	*part->link_of_job = part->next_of_job;
	if (part->next_of_job)
		part->next_of_job->link_of_job = part->link_of_job;
	*part->link_of_agent = part->next_of_agent;
	if (part->next_of_agent)
		part->next_of_agent->link_of_agent = part->link_of_agent;
	part->agent->part_count--;
}

void
bursts_add_placed (struct bursts *bursts, struct burst_job *job)
{
	if (job->placed_slot)
		return;
	bursts->placed[bursts->placed_count++] = job;
	job->placed_slot = bursts->placed_count;
	bursts->have_changed = 1;
}

static void
remove_placed (struct bursts *bursts, const struct burst_job *job)
{
	if (!job->placed_slot)
		return;
	struct burst_job *moved = bursts->placed[--bursts->placed_count];
	bursts->placed[job->placed_slot - 1] = moved;
	moved->placed_slot = job->placed_slot;
}

void
bursts_remove_job (struct bursts *bursts, struct burst_job *job)
{
	struct burst_job **link = bucket_of (bursts, job->id);
	while (*link != job)
		link = &(*link)->next_in_bucket;
	*link = job->next_in_bucket;
	remove_placed (bursts, job);
	bursts->job_count--;
	free (job);
}

int
bursts_have_changed (const struct bursts *bursts)
{
	return bursts->have_changed;
}

const struct bursts_counts *
bursts_counts (const struct bursts *bursts)
{
	return &bursts->counts;
}

uint32_t
bursts_job_count (const struct bursts *bursts)
{
	return bursts->job_count;
}

uint32_t
bursts_active_count (const struct bursts *bursts)
{
	return bursts->active_count;
}

uint32_t
bursts_placed_count (const struct bursts *bursts)
{
	return bursts->placed_count;
}

uint32_t
bursts_holding_count (const struct bursts *bursts)
{
	return bursts->holding_count;
}

/* What it writes a second, by its last window; in its first one since it began. */
static struct volume
rate_of (const struct burst_job *job, double clock)
{
	double seconds = larger (clock - job->began, 1.0);
	if (job->recent.bytes > 0.0 || job->recent.operations > 0.0)
		return job->recent;
	return (struct volume){ job->done.bytes / seconds, job->done.operations / seconds };
}

static int
compare_rates (const void *one, const void *other)
{
	const struct active_burst *a = one, *b = other;
	return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

uint32_t
bursts_list (const struct bursts *bursts, double clock, struct active_burst *out,
	     uint32_t n)
{
	static struct active_burst found[BURSTS_MAX_JOBS];
	uint32_t listed = bursts->active_count < n ? bursts->active_count : n;
	for (uint32_t i = 0; i < bursts->active_count; i++) {
		const struct burst_job *job = bursts->active[i];
		struct volume rate = rate_of (job, clock);
		found[i] = (struct active_burst){
			.job_id = job->id,
			.lane_mask = job->lane_mask,
			.first = job->first,
			.reason = job->reason,
			.share = job->share,
			.since = job->since,
			.began = job->began,
			.bytes = rate.bytes,
			.operations = rate.operations,
		};
	}
	qsort (found, bursts->active_count, sizeof found[0], compare_rates);
	memcpy (out, found, listed * sizeof found[0]);
	return listed;
}

double
bursts_lane_scale (const struct bursts *bursts, uint32_t lane)
{
	return bursts->learned.stations[lane * SLUICE_STATION_METADATA].scale;
}

static int
has_no_write (const struct burst_job *job)
{
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job)
		if (part->bytes || part->operations)
			return 0;
	return 1;
}

uint32_t
bursts_list_silent (const struct bursts *bursts, struct silent_job *out, uint32_t n)
{
	uint32_t listed = 0;
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (const struct burst_job *job = bursts->buckets[i]; job && listed < n;
		     job = job->next_in_bucket)
			if (has_no_write (job))
				out[listed++]
				    = (struct silent_job){ job->id, job->known_since };
	return listed;
}

void
bursts_destroy (struct bursts *bursts)
{
	for (uint32_t i = 0; bursts && i < BUCKETS; i++)
		for (struct burst_job *job = bursts->buckets[i], *next; job; job = next) {
			next = job->next_in_bucket;
			for (struct burst_part *part = job->parts, *after; part;
			     part = after) {
				after = part->next_of_job;
				free (part);
			}
			free (job);
		}
	free (bursts);
}
