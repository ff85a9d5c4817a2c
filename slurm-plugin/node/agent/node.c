#include "node.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t millisecond = 1000000, second = 1000000000;
static const uint64_t in_full = 1000000; /* a share of 1 */

/* ---- which jobs are there ---- */

static struct node_job **
find (struct node *node, uint32_t job_id)
{
	for (uint32_t i = 0; i < node->job_count; i++)
		if (node->jobs[i]->id == job_id)
			return &node->jobs[i];
	return NULL;
}

static int
check_request (const struct sluice_agent_request *request, struct sluice_error *err)
{
	if (request->magic != SLUICE_AGENT_MAGIC
	    || request->version != SLUICE_AGENT_VERSION)
		return sluice_fail (err, "the request is of another version");
	if (request->job_id == 0 || request->device_count > SLUICE_TURNS_MAX_DEVICES)
		return sluice_fail (err, "job %u with %u devices", request->job_id,
				    request->device_count);
	return 0;
}

static struct node_job *
make_job (struct node *node, const struct sluice_agent_request *request,
	  struct sluice_error *err)
{
	struct node_job *job
	    = node->job_count < NODE_MAX_JOBS ? calloc (1, sizeof *job) : NULL;
	if (!job) {
		sluice_fail (err, "no room for more than %u jobs", node->job_count);
		return NULL;
	}
	if (pages_make (&job->pages, request, err) < 0) {
		free (job);
		return NULL;
	}
	job->id = request->job_id;
	job->nodes = request->nodes ? request->nodes : 1;
	job->first_target = (uint16_t)request->first_target;
	job->target_count = (uint16_t)request->target_count;
	job->most_held = request->most_held == SLUICE_AGENT_NO_LIMIT
			     ? UINT64_MAX
			     : request->most_held * second;
	job->is_due = 1;
	node->jobs[node->job_count++] = job;
	return job;
}

struct node_job *
node_register (struct node *node, const struct sluice_agent_request *request,
	       struct sluice_error *err)
{
	struct node_job **found, *job = NULL;
	if (check_request (request, err) == 0) {
		found = find (node, request->job_id);
		job = found ? *found : make_job (node, request, err);
	}
	if (job) {
		job->registrations++;
		job->is_placed |= request->flags & SLUICE_TURNS_PLACED;
		job->is_in_blocks |= request->flags & SLUICE_TURNS_IN_BLOCKS;
		job->is_due |= job->is_placed;
	} else {
		node->refused++;
	}
	return job;
}

int
node_unregister (struct node *node, uint32_t job_id)
{
	struct node_job **found = find (node, job_id), *job = found ? *found : NULL;
	if (!job || --job->registrations > 0)
		return 0;
	*found = node->jobs[--node->job_count];
	pages_destroy (&job->pages);
	free (job);
	return 1;
}

/* ---- bursts ---- */

static void
charge (struct node_job *job, uint64_t now)
{
	uint64_t until = job->until < now ? job->until : now;
	uint64_t from = job->charged > job->began ? job->charged : job->began;
	if (job->is_active && until > from) {
		uint64_t held
		    = (until - from) / in_full * (in_full - job->share)
		      + (until - from) % in_full * (in_full - job->share) / in_full;
		job->burst_held += held;
		job->run_held += held;
	}
	job->charged = now;
}

static void
begin_burst (struct node_job *job, const struct pages_sum *before, uint64_t now)
{
	job->is_active = job->is_due = 1;
	job->began = now;
	job->burst_held = 0;
	job->is_exhausted = 0;
	job->base_bytes = before->bytes;
	job->base_operations = before->operations;
}

/* Sums may dip for an instant, while a process moves its counters. */
static void
keep_rising (struct pages_sum *sum, const struct pages_sum *before)
{
	sum->bytes = sum->bytes > before->bytes ? sum->bytes : before->bytes;
	if (sum->operations < before->operations)
		sum->operations = before->operations;
}

static void
scan (struct node_job *job, uint64_t now)
{
	struct pages_sum before = job->sum, *sum = &job->sum;
	charge (job, now);
	pages_add_up (&job->pages, sum);
	keep_rising (sum, &before);
	uint32_t was_quiet = job->is_quiet;
	job->is_quiet = !sum->writing && !sum->waiting && sum->bytes == before.bytes
			&& sum->operations == before.operations;
	if (!job->is_quiet) {
		job->last = now;
		if (!job->is_active)
			begin_burst (job, &before, now);
	} else if (job->is_active && now - job->last >= SLUICE_TURNS_QUIET_NS) {
		job->is_active = 0;
		job->is_due = 1;
	}
	if (!before.locks != !sum->locks || (job->is_active && job->is_quiet != was_quiet)
	    || (job->until > now && !before.writing != !sum->writing))
		job->is_due = 1;
	if ((job->is_active || job->until > now)
	    && now - job->reported >= NODE_REPORT_MS * millisecond)
		job->is_due = 1;
}

static void
check_processes (struct node *node)
{
	uint32_t looks = NODE_LOOKS;
	processes_forget_locks (&node->processes);
	for (uint32_t i = 0; i < node->job_count; i++) {
		uint32_t share = looks / (node->job_count - i);
		looks -= share;
		looks
		    += pages_see_processes (&node->jobs[i]->pages, &node->processes, share);
	}
}

void
node_scan (struct node *node, uint64_t now)
{
	processes_read_on (&node->processes);
	if (++node->scans % NODE_CHECK_SCANS == 0)
		check_processes (node);
	for (uint32_t i = 0; i < node->job_count; i++)
		scan (node->jobs[i], now);
}

static uint64_t
left_of_run (const struct node_job *job)
{
	if (job->most_held == UINT64_MAX)
		return UINT64_MAX;
	return job->most_held > job->run_held ? job->most_held - job->run_held : 0;
}

/* Holding what goes through the shim would not slow it down. */
static int
is_uncovered (const struct pages_sum *sum)
{
	return sum->refused || (sum->uncovered && !sum->uncovered_bytes)
	       || sum->uncovered_bytes > sum->bytes / 10;
}

static uint32_t
flags_of (const struct node_job *job, uint64_t now)
{
	return (job->is_active ? WIRE_ACTIVE : 0u) | (job->sum.locks ? WIRE_LOCKED : 0u)
	       | (job->until > now ? WIRE_HELD : 0u) | (job->is_quiet ? WIRE_QUIET : 0u)
	       | (is_uncovered (&job->sum) ? WIRE_UNCOVERED : 0u)
	       | (job->sum.writing ? WIRE_WRITING : 0u)
	       | (job->is_placed ? WIRE_PLACED : 0u)
	       | (job->is_in_blocks ? WIRE_IN_BLOCKS : 0u);
}

int
node_describe (struct node_job *job, uint64_t now, int all, struct wire_burst *out)
{
	if (!job->is_due && !all)
		return 0;
	job->is_due = 0;
	job->reported = now;
	*out = (struct wire_burst){
		.job_id = job->id,
		.flags = flags_of (job, now),
		.nodes = job->nodes,
		.writers = job->sum.writers,
		.began = job->began,
		.bytes = job->sum.bytes,
		.operations = job->sum.operations,
		.base_bytes = job->base_bytes,
		.base_operations = job->base_operations,
		.uncovered_bytes = job->sum.uncovered_bytes,
		.refused = job->sum.refused,
		.held = job->run_held,
		.may_hold = left_of_run (job),
		.exhausted = job->exhausted,
		.first_target = job->first_target,
		.target_count = job->target_count,
	};
	return 1;
}

/* ---- verdicts ---- */

static void
say (struct node_job *job, uint64_t until, uint64_t rate, uint32_t share)
{
	job->until = until;
	job->share = share;
	if (until == 0 || rate > 0)
		job->stretch_began = 0;
	pages_say (&job->pages, until, rate);
}

/* Until when it may be held at this stretch; not after now: it goes for a moment. A burst
 * that renews words does not lengthen it. */
static uint64_t
end_of_stretch (struct node_job *job, const struct wire_word *word, uint64_t now)
{
	uint64_t longest = word->longest_ms ? word->longest_ms : SLUICE_TURNS_STRETCH_MS;
	uint64_t end = job->stretch_began + longest * millisecond;
	pages_bound (&job->pages, (uint32_t)longest);
	if (now < job->respite)
		return now;
	if (job->stretch_began && now >= end) {
		job->respite = now + SLUICE_TURNS_RESPITE_NS;
		return now;
	}
	if (!job->stretch_began || job->until <= now) {
		job->stretch_began = now;
		end = now + longest * millisecond;
	}
	return end;
}

static uint64_t
budget_of (const struct node_job *job, const struct wire_word *word)
{
	uint64_t burst
	    = word->most_held > job->burst_held ? word->most_held - job->burst_held : 0;
	uint64_t run = left_of_run (job);
	return burst < run ? burst : run;
}

/* Nothing lasts beyond the lease of the report that the coordinator read. */
static void
hold (struct node_job *job, const struct wire_word *word, uint64_t echo, uint64_t now)
{
	uint64_t until = echo + WIRE_LEASE_NS, budget = budget_of (job, word);
	int is_slowed = word->action == WIRE_SLOW && word->rate > 0;
	if (budget == 0 && !job->is_exhausted) {
		job->exhausted++;
		job->is_exhausted = job->is_due = 1;
	}
	/* Nothing was reported for a while: a report will be answered. */
	if (until <= now && now - job->reported >= NODE_ANSWER_MS * millisecond)
		job->is_due = 1;
	if (budget == 0 || echo > now || until <= now) {
		say (job, 0, 0, 0);
		return;
	}
	uint64_t end = end_of_stretch (job, word, now);
	until = until - now < budget ? until : now + budget;
	if (is_slowed)
		say (job, until, word->rate, word->share < in_full ? word->share : 0);
	else if (end <= now)
		say (job, 0, 0, 0);
	else
		say (job, until < end ? until : end, 0, 0);
}

static void
obey (struct node_job *job, const struct wire_word *word, uint64_t echo, uint64_t now)
{
	charge (job, now);
	if (word->action == WIRE_HOLD || word->action == WIRE_SLOW)
		hold (job, word, echo, now);
	else
		say (job, 0, 0, 0);
}

void
node_obey (struct node *node, const struct wire_verdict *verdict, uint64_t now)
{
	for (uint32_t i = 0; i < verdict->count; i++) {
		struct node_job **found = find (node, verdict->words[i].job_id);
		if (found)
			obey (*found, &verdict->words[i], verdict->echo, now);
	}
}

void
node_place (struct node *node, const struct wire_place *place, uint64_t now)
{
	struct node_job **found = find (node, place->job_id);
	if (found)
		pages_place (&(*found)->pages, now + WIRE_PLACE_NS, &place->targets);
}

void
node_release_all (struct node *node)
{
	static const struct sluice_turns_targets none;
	for (uint32_t i = 0; i < node->job_count; i++) {
		say (node->jobs[i], 0, 0, 0);
		pages_place (&node->jobs[i]->pages, 0, &none);
	}
}
