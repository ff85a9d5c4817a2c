/*
 * Reports of agents: they begin and end bursts, and add to what a burst has done.
 */
#include "bursts_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double min_report_gap = 0.3; /* s between two reports that are both kept */

/* Charge it for being held, or slowed down, since the last call. */
void
bursts_charge (struct bursts *bursts, struct burst_job *job, double clock)
{
	double seconds = (1.0 - job->share) * (clock - job->charged);
	sluice_turns_pass (bursts->respite, job->share, clock - job->charged, &job->stretch,
			   &job->went);
	job->held += seconds;
	job->waited += bursts->holds ? seconds : 0.0;
	bursts->counts.held_seconds += seconds;
	bursts->counts.held_node_seconds += seconds * job->nodes;
	job->charged = clock;
}

static void
begin_burst (struct bursts *bursts, struct burst_job *job, double began, double clock)
{
	bursts->active[bursts->active_count++] = job;
	job->slot = bursts->active_count;
	job->began = began;
	job->reported = clock;
	job->settled = larger (clock + bursts_backlog,
			       bursts_last_change (bursts, job) + sluice_turns_drained);
	job->charged = clock;
	job->share = 1.0;
	job->held = job->waited = job->stretch = job->went = 0.0;
	job->is_out_of_budget = job->is_decided = 0;
	job->done = job->pace = (struct volume){ 0.0, 0.0 };
	job->reason = SLUICE_TURN_NOT_FULL;
	job->burst_holds = job->first = job->first_nodes = 0;
	job->saving = NAN;
	job->since = began;
	job->recent = (struct volume){ 0.0, 0.0 };
	bursts_begin_window (job, clock);
	bursts_record_change (bursts, job, clock);
	bursts->counts.bursts++;
	bursts->have_changed = 1;
}

static void
record_held (const struct bursts *bursts, const struct burst_job *job, double clock)
{
	const struct held_burst burst = {
		.job_id = job->id,
		.nodes = job->nodes,
		.first = job->first,
		.first_nodes = job->first_nodes,
		.lane_mask = job->lane_mask,
		.holds = job->burst_holds,
		.is_held = job->waited > 0.0,
		.ended = job->share < 1.0 ? "burst" : job->ended,
		.began = job->began,
		.held = job->held,
		.bytes = job->done.bytes,
		.saving = job->saving,
	};
	if (bursts->record && job->burst_holds)
		bursts->record (bursts->recorder, &burst, clock);
}

static void
end_burst (struct bursts *bursts, struct burst_job *job, double clock)
{
	struct burst_job *moved = bursts->active[--bursts->active_count];
	bursts_charge (bursts, job, clock);
	record_held (bursts, job, clock);
	bursts_learn_burst (job, clock);
	bursts->active[job->slot - 1] = moved;
	moved->slot = job->slot;
	job->slot = 0;
	job->share = 1.0;
	bursts_release (bursts, job);
	bursts_record_change (bursts, job, clock);
	bursts->have_changed = 1;
}

static void
set_active (struct bursts *bursts, struct burst_part *part, int is_active, double began,
	    double clock)
{
	struct burst_job *job = part->job;
	if (is_active && !part->is_active && job->active_parts++ == 0)
		begin_burst (bursts, job, began, clock);
	if (!is_active && part->is_active && --job->active_parts == 0)
		end_burst (bursts, job, clock);
	part->is_active = is_active != 0;
}

static void
remove_part (struct bursts *bursts, struct burst_part *part, double clock)
{
	struct burst_job *job = part->job;
	set_active (bursts, part, 0, 0.0, clock);
	bursts_unlink_part (part);
	free (part);
	bursts->part_count--;
	if (!job->parts)
		bursts_remove_job (bursts, job);
}

/* Counters only rise, and before the first report nothing counts but its burst. */
static void
add_counters (struct bursts *bursts, struct burst_part *part,
	      const struct wire_burst *burst, int is_first)
{
	struct burst_job *job = part->job;
	uint64_t bytes
	    = bursts_rise (is_first ? burst->base_bytes : part->bytes, burst->bytes);
	uint64_t operations = bursts_rise (
	    is_first ? burst->base_operations : part->operations, burst->operations);
	if (burst->flags & WIRE_ACTIVE || part->is_active) {
		job->done.bytes += (double)bytes;
		job->done.operations += (double)operations;
	}
	bursts->counts.bytes += (double)bytes;
	bursts->counts.uncovered_bytes
	    += (double)bursts_rise (part->uncovered_bytes, burst->uncovered_bytes);
	bursts->counts.refused += (double)bursts_rise (part->refused, burst->refused);
	bursts->counts.budgets += (double)bursts_rise (part->exhausted, burst->exhausted);
	if (is_first) {
		part->window_sent = burst->began;
		part->window_bytes = burst->base_bytes;
		part->window_operations = burst->base_operations;
	}
	part->bytes = burst->bytes;
	part->operations = burst->operations;
	part->uncovered_bytes = burst->uncovered_bytes;
	part->refused = burst->refused;
	part->exhausted = burst->exhausted;
}

static void
record_progress (struct burst_part *part, double clock)
{
	if (clock - part->reports[1].clock >= min_report_gap)
		memmove (&part->reports[1], &part->reports[0],
			 (MAX_REPORTS - 1) * sizeof part->reports[0]);
	part->reports[0] = (struct progress){
		clock,
		{ (double)part->bytes, (double)part->operations },
	};
}

static double
age_of (const struct wire_report *report, const struct wire_burst *burst)
{
	double age = (double)bursts_rise (burst->began, report->sent) * 1e-9;
	return age < 1e6 ? age : 1e6;
}

static void
set_block (struct burst_job *job, uint32_t first, uint32_t count)
{
	job->block = (struct sluice_turns_targets){ { 0 } };
	for (uint32_t t = first; t < first + count && t < SLUICE_MAX_TARGETS; t++)
		job->block.bits[t / 64] |= 1ull << t % 64;
}

static void
apply_report (struct bursts *bursts, struct bursts_agent *agent,
	      const struct wire_report *report, const struct wire_burst *burst,
	      double clock)
{
	struct burst_part *part = bursts_find_part (agent, burst->job_id);
	int is_first = !part, is_active = (burst->flags & WIRE_ACTIVE) != 0;
	if (burst->flags & WIRE_GONE) {
		if (part)
			remove_part (bursts, part, clock);
		return;
	}
	if (!part && !(part = bursts_make_part (bursts, agent, burst->job_id)))
		return;
	if (is_first && !part->next_of_job)
		part->job->known_since = clock;
	if (is_active)
		set_active (bursts, part, 1, clock - age_of (report, burst), clock);
	add_counters (bursts, part, burst, is_first);
	if (!is_active)
		set_active (bursts, part, 0, 0.0, clock);
	bursts->have_changed |= (part->flags ^ burst->flags) & (WIRE_LOCKED | WIRE_QUIET);
	part->sent = report->sent;
	part->flags = burst->flags;
	set_block (part->job, burst->first_target, burst->target_count);
	if (part->flags & WIRE_PLACED) {
		part->job->is_in_blocks = (part->flags & WIRE_IN_BLOCKS) != 0;
		bursts_add_placed (bursts, part->job);
	}
	part->writers = burst->writers;
	part->may_hold = burst->may_hold;
	part->reported = clock;
	record_progress (part, clock);
	part->job->nodes = burst->nodes ? burst->nodes : 1;
	if (part->job->word.action != WIRE_GO || burst->flags & WIRE_HELD)
		bursts->send (bursts->sender, agent, &part->job->word);
}

void
bursts_report (struct bursts *bursts, struct bursts_agent *agent,
	       const struct wire_report *report, double clock)
{
	agent->echo = report->sent;
	for (uint32_t i = 0; i < report->count; i++)
		apply_report (bursts, agent, report, &report->bursts[i], clock);
}

void
bursts_drop (struct bursts *bursts, struct bursts_agent *agent, double clock)
{
	while (agent->parts)
		remove_part (bursts, agent->parts, clock);
}

void
bursts_end_silent (struct bursts *bursts, double clock)
{
	if (clock - bursts->searched < 1.0)
		return;
	bursts->searched = clock;
	for (uint32_t i = bursts->active_count; i-- > 0;) {
		struct burst_part *next, *part = bursts->active[i]->parts;
		for (; part; part = next) {
			next = part->next_of_job;
			if (!part->is_active || clock - part->reported < bursts_silence)
				continue;
			bursts->counts.silent++;
			set_active (bursts, part, 0, 0.0, clock);
		}
	}
}
