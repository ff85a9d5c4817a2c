/*
 * What is learned of a job and its lanes from reports: the rate of a job while no other one
 * writes on its lanes, the most that it ever got, and the volume of its last burst.
 */
#include "bursts_state.h"

#include <math.h>

#include "page.h"

static const double window_seconds = 1.0; /* over which a rate is measured */
static const double quiet_seconds = SLUICE_TURNS_QUIET_NS * 1e-9; /* that end a burst */
static const double rate_decay_seconds = 60.0; /* by which a measured rate fades by e */
static const double min_burst_share = 0.01; /* of the last burst, to predict the next by */
static const double full_lane_share = 0.75; /* measured, from which a lane counts as full */

/* Other jobs write on the lanes of a job from now on, or at other speeds. */
void
bursts_record_change (struct bursts *bursts, const struct burst_job *job, double clock)
{
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
		if (!job->lane_mask || job->lane_mask >> lane & 1u)
			bursts->changed[lane] = clock;
}

double
bursts_last_change (const struct bursts *bursts, const struct burst_job *job)
{
	double last = 0.0;
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
		if (!job->lane_mask || job->lane_mask >> lane & 1u)
			last = larger (last, bursts->changed[lane]);
	return last;
}

/* Clock from which a job's rate says what it can do. Its first second may show what caches
 * take; other jobs write out unseen what they cached before they were held, or done. */
double
bursts_settled_at (const struct bursts *bursts, const struct burst_job *job)
{
	double last = bursts_last_change (bursts, job);
	return last > job->reported ? larger (job->settled, last + sluice_turns_drained)
				    : job->settled;
}

uint64_t
bursts_rise (uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

void
bursts_begin_window (struct burst_job *job, double clock)
{
	job->window_began = clock;
	job->is_window_clean = 1;
	for (struct burst_part *part = job->parts; part; part = part->next_of_job) {
		part->window_sent = part->sent;
		part->window_bytes = part->bytes;
		part->window_operations = part->operations;
	}
}

/* What the parts did from report to report, by their agents' clocks. -1: one that is in the
 * burst has not reported yet in this window. */
static int
measure_window (const struct burst_job *job, struct volume *rate)
{
	*rate = (struct volume){ 0.0, 0.0 };
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job) {
		double seconds = (double)bursts_rise (part->window_sent, part->sent) * 1e-9;
		if (seconds > 0.0) {
			rate->bytes += (double)bursts_rise (part->window_bytes, part->bytes)
				       / seconds;
			rate->operations += (double)bursts_rise (part->window_operations,
								 part->operations)
					    / seconds;
		} else if (part->is_active) {
			return -1;
		}
	}
	return 0;
}

/* Reports lie up to a second before the window. */
static void
end_window (const struct bursts *bursts, struct burst_job *job, double clock)
{
	double seconds = clock - job->window_began;
	int is_settled = job->window_began >= job->reported + bursts_backlog;
	struct volume rate;
	if (measure_window (job, &rate) < 0)
		return;
	job->recent = rate;
	if (is_settled && job->waited <= 0.0) {
		job->best.bytes = larger (job->best.bytes, rate.bytes);
		job->best.operations = larger (job->best.operations, rate.operations);
	}
	/* Unseen jobs only ever make it slower: the fastest window counts, and fades. */
	if (job->is_window_clean && job->window_began >= bursts_settled_at (bursts, job)) {
		double left = exp (-seconds / rate_decay_seconds);
		job->clean.bytes = larger (rate.bytes, left * job->clean.bytes);
		job->clean.operations
		    = larger (rate.operations, left * job->clean.operations);
		job->clean_seconds += seconds;
	}
	bursts_begin_window (job, clock);
}

/* A log line between two checkpoints says nothing of the next one. */
static void
learn_volume (struct burst_job *job)
{
	if (job->done.bytes < min_burst_share * job->last.bytes
	    && job->done.operations < min_burst_share * job->last.operations)
		return;
	job->last = job->done;
}

/* Of a job whose bursts are too short for a window. */
static void
learn_rate (struct burst_job *job, double clock)
{
	double seconds = clock - job->began - job->waited - quiet_seconds;
	if (job->best.bytes > 0.0 || job->best.operations > 0.0 || seconds < window_seconds)
		return;
	job->best.bytes = job->done.bytes / seconds;
	job->best.operations = job->done.operations / seconds;
}

void
bursts_learn_burst (struct burst_job *job, double clock)
{
	learn_volume (job);
	learn_rate (job, clock);
}

static uint32_t
lanes_of (const struct burst_job *job, const struct bursts_rules *rules)
{
	return sluice_turns_lanes (&rules->storage, job->lane_mask);
}

/* The share of its fullest station that a rate takes of one lane of a job. */
static double
share_of_lane (struct volume rate, uint32_t lanes, int lane,
	       const struct sluice_turns_storage *storage)
{
	const struct sluice_turns_lane *here = &storage->lanes[lane];
	double targets = sluice_turns_targets (storage, lanes), bytes, operations;
	double part = targets > 0.0 ? here->targets / targets : 0.0;
	bytes = here->bytes > 0.0 ? part * rate.bytes / here->bytes : 0.0;
	operations
	    = here->operations > 0.0 ? part * rate.operations / here->operations : 0.0;
	return larger (bytes, operations);
}

/* The share of each lane that is served. While a job is held for it, it is full: the job
 * that was held last may have filled caches that are written now, unseen. */
static void
measure_lanes (const struct bursts *bursts, const struct bursts_rules *rules,
	       double served[SLUICE_MAX_LANES])
{
	for (uint32_t i = 0; i < bursts->active_count; i++) {
		const struct burst_job *job = bursts->active[i];
		uint32_t lanes = lanes_of (job, rules);
		for (uint32_t rest = lanes; rest; rest &= rest - 1u) {
			int lane = __builtin_ctz (rest);
			served[lane]
			    += share_of_lane (job->recent, lanes, lane, &bursts->storage);
			if (job->share < 1.0)
				served[lane] = larger (served[lane], full_lane_share);
		}
	}
}

/* The rate of a job that shares a full lane is what it got, not what it would take. Until
 * it has been measured undisturbed it is taken to fill the lane: so it is measured in its
 * first turn. */
static void
raise_best_rate (const struct bursts *bursts, struct burst_job *job,
		 const struct bursts_rules *rules, const double *served)
{
	double most = 0.0;
	uint32_t lanes = lanes_of (job, rules);
	for (uint32_t rest = lanes; rest; rest &= rest - 1u) {
		int lane = __builtin_ctz (rest);
		if (served[lane] >= full_lane_share)
			most = larger (
			    most, share_of_lane (job->best, lanes, lane, &bursts->storage));
	}
	if (job->clean_seconds >= bursts_min_clean || !(most > 0.0 && most < 1.0))
		return;
	job->best.bytes /= most;
	job->best.operations /= most;
}

/* A call that is under way when its job is held goes on, and may write a whole
 * checkpoint. */
static int
may_write (const struct burst_job *job, const struct bursts_rules *rules)
{
	int writes = job->share > 0.0 || !rules->holds;
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job)
		writes |= part->is_active && part->flags & WIRE_WRITING;
	return writes;
}

/* A window stays clean while no other job writes on the job's lanes. */
void
bursts_learn (struct bursts *bursts, const struct bursts_rules *rules, double clock)
{
	uint32_t writing[SLUICE_MAX_LANES] = { 0 };
	double served[SLUICE_MAX_LANES] = { 0.0 };
	for (uint32_t i = 0; i < bursts->active_count; i++)
		if (may_write (bursts->active[i], rules))
			for (uint32_t rest = lanes_of (bursts->active[i], rules); rest;
			     rest &= rest - 1u)
				writing[__builtin_ctz (rest)]++;
	for (uint32_t i = 0; i < bursts->active_count; i++) {
		struct burst_job *job = bursts->active[i];
		int is_alone = job->share >= 1.0 || !rules->holds;
		for (uint32_t rest = lanes_of (job, rules); rest; rest &= rest - 1u)
			is_alone &= writing[__builtin_ctz (rest)] <= 1;
		job->is_window_clean &= (uint32_t)is_alone;
		if (clock - job->window_began >= window_seconds)
			end_window (bursts, job, clock);
	}
	measure_lanes (bursts, rules, served);
	for (uint32_t i = 0; i < bursts->active_count; i++)
		raise_best_rate (bursts, bursts->active[i], rules, served);
}
