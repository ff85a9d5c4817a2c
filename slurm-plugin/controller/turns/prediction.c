/*
 * What is predicted of a job in a burst: its demand and length, from its own bursts where
 * they have shown it, else from its published profile; and of jobs without reports.
 */
#include "bursts_state.h"

#include <math.h>

static const double unlimited
    = 1e18; /* s, in place of INFINITY where it becomes a number */

static const struct sluice_corunner *
find_corunner (const struct sluice_snapshot *snapshot, uint32_t job_id)
{
	uint32_t n = snapshot ? sluice_snapshot_corunner_count (snapshot) : 0;
	for (uint32_t i = 0; i < n; i++)
		if (sluice_snapshot_corunner (snapshot, i)->job_id == job_id)
			return sluice_snapshot_corunner (snapshot, i);
	return NULL;
}

/* Targets that it needs of its lane; 0: unknown, or it writes on several. */
static uint32_t
width_of (const struct sluice_corunner *one, const struct sluice_turns_storage *storage)
{
	uint32_t lanes = sluice_turns_lanes (storage, one->lane_mask);
	const struct sluice_turns_lane *lane = &storage->lanes[__builtin_ctz (lanes)];
	if ((lanes & (lanes - 1u)) != 0 || !(lane->targets <= SLUICE_MAX_TARGETS))
		return 0;
	return sluice_placement_need (&one->profile, lane->bytes / lane->targets,
				      (uint32_t)lane->targets);
}

void
bursts_predict (struct burst_job *job, const struct bursts_rules *rules)
{
	const struct sluice_corunner *found = find_corunner (rules->snapshot, job->id);
	job->rules = rules->number;
	if (!found)
		return; /* it is no longer published, or never was */
	sluice_turns_demand (&found->profile, job->predicted);
	job->burst_seconds = larger (found->profile.burst_seconds, 0.0);
	job->lane_mask = found->lane_mask;
	job->width = rules->storage.lane_count ? width_of (found, &rules->storage) : 0;
	job->program = sluice_turns_program (&found->profile);
}

/* B/s and operations/s while no other burst slows it. */
struct volume
bursts_full_rate (const struct burst_job *job)
{
	if (job->clean_seconds >= bursts_min_clean)
		return job->clean;
	if (!(job->predicted[SLUICE_STATION_BYTES] > 0.0))
		return job->best;
	return (struct volume){ job->predicted[SLUICE_STATION_BYTES],
				job->predicted[SLUICE_STATION_OPERATIONS] };
}

/* s that a volume takes at these rates. */
double
bursts_seconds (struct volume volume, struct volume rate)
{
	double bytes = rate.bytes > 0.0 ? volume.bytes / rate.bytes : 0.0;
	double operations
	    = rate.operations > 0.0 ? volume.operations / rate.operations : 0.0;
	return larger (bytes, operations);
}

/* s for which every node that is in the burst allows a hold. */
static double
hold_limit (const struct burst_job *job, uint32_t *flags)
{
	double least = unlimited;
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job) {
		if (part->flags & (WIRE_LOCKED | WIRE_UNCOVERED))
			*flags |= SLUICE_TURNS_EXEMPT;
		least = smaller (least, (double)part->may_hold * 1e-9);
	}
	return least;
}

/* Its burst may be over, which is certain only when it has been so for a while: until then
 * it takes nothing, so that others need not wait for that. */
static int
is_quiet (const struct burst_job *job)
{
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job)
		if (part->is_active && !(part->flags & WIRE_QUIET))
			return 0;
	return 1;
}

/* Jobs without a profile are alike by the size of their writes, by factors of 8. */
static uint64_t
program_of (const struct burst_job *job)
{
	struct volume volume = job->last.operations > 0.0 ? job->last : job->done;
	if (job->program || !(volume.operations > 0.0))
		return job->program;
	return 2u * (uint64_t)lround (log2 (1.0 + volume.bytes / volume.operations) / 3.0);
}

void
bursts_describe (const struct bursts *bursts, struct burst_job *job, double clock,
		 struct sluice_turns_job *out)
{
	struct volume rate = bursts_full_rate (job);
	double last = bursts_seconds (job->last, rate);
	const struct sluice_turns_targets *targets = bursts_targets_of (job);
	*out = (struct sluice_turns_job){
		.key = job->id,
		.nodes = job->nodes,
		.expected = last > 0.0 ? last : job->burst_seconds,
		.done = bursts_seconds (job->done, rate),
		.held = job->held,
		.stretch = job->stretch,
		.went = job->went,
		.began = job->began < clock ? job->began : clock,
		.allowed = bursts->holds ? job->share : 1.0,
		.moved = bursts_progress (job, rate, clock),
		.program = program_of (job),
		.targets = targets ? targets->bits : NULL,
		.lane_mask = job->lane_mask,
	};
	if (is_quiet (job))
		return;
	out->speed = bursts_speed (bursts, job, clock);
	out->demand[SLUICE_STATION_BYTES] = out->demand[SLUICE_STATION_LINKS] = rate.bytes;
	out->demand[SLUICE_STATION_OPERATIONS] = rate.operations;
	out->demand[SLUICE_STATION_METADATA] = job->predicted[SLUICE_STATION_METADATA];
	sluice_turns_leave (out, hold_limit (job, &out->flags));
}

/* Less the mean rate of a job that does not report its bursts; a tenth is left, because no
 * capacity would mean that it is unknown. */
static void
subtract_mean (struct sluice_turns_storage *storage, const struct sluice_turns_storage *all,
	       const struct sluice_corunner *other)
{
	uint32_t mask = sluice_turns_lanes (all, other->lane_mask);
	double rate = larger (other->profile.rate, 0.0);
	double targets = sluice_turns_targets (all, mask);
	rate *= smaller (larger (other->profile.io_share, 0.0), 1.0);
	for (uint32_t rest = mask; rest && targets > 0.0; rest &= rest - 1u) {
		int lane = __builtin_ctz (rest);
		double part = all->lanes[lane].targets / targets;
		storage->lanes[lane].bytes = larger (
		    storage->lanes[lane].bytes - rate * part, 0.1 * all->lanes[lane].bytes);
	}
}

void
bursts_subtract_unreported (struct bursts *bursts, const struct bursts_rules *rules,
			    struct sluice_turns_storage *storage)
{
	uint32_t n = rules->snapshot ? sluice_snapshot_corunner_count (rules->snapshot) : 0;
	*storage = rules->storage;
	for (uint32_t i = 0; i < n; i++) {
		const struct sluice_corunner *one
		    = sluice_snapshot_corunner (rules->snapshot, i);
		if (!bursts_find_job (bursts, one->job_id))
			subtract_mean (storage, &rules->storage, one);
	}
}
