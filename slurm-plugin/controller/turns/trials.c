/*
 * How far bursts are and at what speed they go, for the trials and the learning of the
 * core.
 *
 * Both look back by bursts_report_lag: nodes report once a second, and what lies between is
 * interpolated, so that all is measured by one clock.
 */
#include "bursts_state.h"

/* s over which the speed of a burst is measured */
static const double min_speed_seconds = 2.0, max_speed_seconds = 3.0;

/* What a part had written at a clock, between the reports before and after it. */
static struct volume
written_at (const struct burst_part *part, double clock)
{
	const struct progress *before = part->reports, *after = part->reports;
	while (before < part->reports + MAX_REPORTS - 1 && before->clock > clock)
		after = before++;
	double seconds = after->clock - before->clock;
	if (!(seconds > 0.0) || !(before->clock > 0.0))
		return after->volume;
	double share = smaller (1.0, larger (0.0, (clock - before->clock) / seconds));
	return (struct volume){
		before->volume.bytes + share * (after->volume.bytes - before->volume.bytes),
		before->volume.operations
		    + share * (after->volume.operations - before->volume.operations),
	};
}

/* s at full speed that a job had done a lag ago; below 0: its full speed is not known. */
double
bursts_progress (struct burst_job *job, struct volume rate, double clock)
{
	struct volume sum = { 0.0, 0.0 };
	if (!(job->pace.bytes > 0.0 || job->pace.operations > 0.0))
		job->pace = rate;
	if (!(job->pace.bytes > 0.0 || job->pace.operations > 0.0))
		return -1.0;
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job) {
		struct volume one = written_at (part, clock - bursts_report_lag);
		sum.bytes += one.bytes;
		sum.operations += one.operations;
	}
	return bursts_seconds (sum, job->pace);
}

/* Whether there are reports of a time, with some progress in each part of it: a call that
 * writes for seconds is not counted before its end. */
static int
has_progress (const struct burst_part *part, double from, double to, int progresses)
{
	int has = part->reports[0].clock >= to, i = 0;
	for (; has && i < MAX_REPORTS - 1 && part->reports[i].clock > from; i++) {
		const struct progress *after = &part->reports[i], *before = after + 1;
		has = before->clock > 0.0
		      && (!progresses || after->volume.bytes > before->volume.bytes
			  || after->volume.operations > before->volume.operations);
	}
	return has && part->reports[i].clock <= from;
}

/* Share of its full speed at which a job went between two clocks; below 0: not known. What
 * it got among others says nothing of its full speed. */
static double
speed_between (const struct burst_job *job, double from, double to)
{
	struct volume sum = { 0.0, 0.0 };
	int goes = job->share > 0.0;
	if (to - from < min_speed_seconds
	    || !(job->clean_seconds >= bursts_min_clean
		 || job->predicted[SLUICE_STATION_BYTES] > 0.0))
		return -1.0;
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job) {
		if (!part->is_active)
			continue;
		if (!has_progress (part, from, to, goes)
		    || (!goes && part->flags & WIRE_WRITING))
			return -1.0;
		struct volume before = written_at (part, from),
			      after = written_at (part, to);
		sum.bytes += after.bytes - before.bytes;
		sum.operations += after.operations - before.operations;
	}
	return bursts_seconds (sum, bursts_full_rate (job)) / (to - from);
}

/* The same since the same jobs have written on its lanes. */
double
bursts_speed (const struct bursts *bursts, const struct burst_job *job, double clock)
{
	double to = clock - bursts_report_lag;
	return speed_between (
	    job, larger (to - max_speed_seconds, bursts_settled_at (bursts, job)), to);
}
