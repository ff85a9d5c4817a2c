#include "jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "page.h"

enum { BUCKETS = 1 << 15, KEPT = 6 /* reports, that reach back by more than the lag */ };

static const double never = 1e18;  /* s, in place of INFINITY where it becomes a number */
static const double window = 1.0;  /* s over which a rate is measured */
static const double backlog = 1.0; /* s at a burst's begin that say nothing of its rate */
/* s without activity that a burst ends with */
static const double quiet = SLUICE_TURNS_QUIET_NS * 1e-9;
static const double memory = 60.0; /* s of undisturbed writing that a rate is known from */
static const double enough = 3.0;  /* s of it, from which a rate is known */
static const double negligible = 0.01;	/* of the last burst: says nothing of the next */
static const double nearly_full = 0.75; /* of a station: by what is seen to be served */
static const double noticeable = 0.1;	/* of a rate: a change worth telling */
/* s by which trials look back: nodes report once a second, and what lies between is
 * interpolated, so that all is measured by one clock. */
static const double lag = 1.2;
static const double apart = 0.3; /* s: reports that are kept */
/* s over which the speed of bursts is measured, at least and at most */
static const double least_watched = 2.0, most_watched = 3.0;

/* Bytes and operations, or rates of these. */
struct volume {
	double bytes, operations;
};

/* What a part had written when it was heard of. */
struct heard {
	double clock;
	struct volume volume;
};

struct jobs_part {
	struct job *job;
	struct jobs_agent *agent;
	struct jobs_part *next_of_job, **link_of_job;
	struct jobs_part *next_of_agent, **link_of_agent;
	uint32_t is_active;
	uint32_t flags; /* enum wire_burst_flags, of the newest report */
	uint32_t writers;
	double heard;
	struct heard kept[KEPT]; /* the newest first */
	uint64_t sent;		 /* agent's clock of the newest report */
	uint64_t bytes, operations, uncovered_bytes, refused, exhausted, may_hold;
	/* at the last report before the job's window began */
	uint64_t window_sent, window_bytes, window_operations;
};

struct job {
	uint32_t id, nodes;
	struct job *next_in_bucket;
	struct jobs_part *parts;
	uint32_t active_parts;
	uint32_t place; /* among those in a burst, from 1; 0: it is in none */
	/* the burst */
	double began;
	double heard;	/* clock of its first report */
	double settled; /* clock from which what it does says what it can, but for others */
	struct volume done;
	double held, charged, share; /* in observe, as it would have been */
	double stretch, went;	     /* as in struct sluice_turns_job */
	double waited;		     /* of that, what it was */
	uint32_t first, is_out_of_budget;
	uint32_t first_nodes, burst_holds;
	const char *ended; /* why it was last released */
	uint32_t reason;   /* of its verdict */
	double saving, since;
	uint32_t is_decided; /* its nodes know of a verdict on this burst */
	struct wire_word word;
	/* the rate it is measured at */
	double window_began;
	uint32_t is_window_clean;
	struct volume clean; /* rates while nobody else wrote */
	double clean_seconds;
	struct volume pace; /* rate by which trials measure it, the same in a burst */
	struct volume best; /* rates */
	struct volume seen; /* rate in its last window */
	/* the burst before */
	struct volume last;
	/* what its profile predicts; 0: unknown */
	uint64_t rules;
	double predicted[SLUICE_STATION_COUNT], burst_seconds;
	uint64_t program;
	uint32_t lane_mask;
	/* for people */
	double known_since;
	uint32_t holds;
	double first_held, held_in_all;
};

struct jobs {
	jobs_say *say;
	void *speaker;
	jobs_tell_held *tell; /* NULL: nobody listens */
	void *listener;
	struct jobs_counts counts;
	uint32_t job_count, part_count, active_count, holding_count;
	int have_changed, holds;
	double listened; /* clock at which those that fell silent were sought */
	double respite;	 /* s: sluice_turns_respite */
	struct job *buckets[BUCKETS];
	struct job *active[JOBS_MAX];
	struct sluice_turns_job described[JOBS_MAX];
	struct sluice_turn turns[JOBS_MAX];
	uint32_t order[JOBS_MAX];
	struct sluice_turns_check check;
	struct sluice_turns_memory memory;
	struct sluice_turns_storage storage; /* as it was learned to be */
	double changed[SLUICE_MAX_LANES]; /* clock since which the same jobs write there */
};

struct jobs *
jobs_create (jobs_say *say, void *speaker)
{
	struct jobs *jobs = calloc (1, sizeof *jobs);
	if (jobs) {
		jobs->say = say;
		jobs->speaker = speaker;
		sluice_turns_check_init (&jobs->check, lag);
		sluice_turns_memory_init (&jobs->memory);
	}
	return jobs;
}

void
jobs_set_listener (struct jobs *jobs, jobs_tell_held *tell, void *listener)
{
	jobs->tell = tell;
	jobs->listener = listener;
}

/* ---- jobs and their parts ---- */

static struct job **
bucket_of (struct jobs *jobs, uint32_t job_id)
{
	return &jobs->buckets[(job_id * 0x9E3779B1u) >> 17];
}

static struct job *
find_job (struct jobs *jobs, uint32_t job_id)
{
	struct job *job = *bucket_of (jobs, job_id);
	while (job && job->id != job_id)
		job = job->next_in_bucket;
	return job;
}

static struct job *
make_job (struct jobs *jobs, uint32_t job_id)
{
	struct job *job = jobs->job_count < JOBS_MAX ? calloc (1, sizeof *job) : NULL;
	if (!job)
		return NULL;
	job->id = job->word.job_id = job_id;
	job->share = 1.0;
	job->next_in_bucket = *bucket_of (jobs, job_id);
	*bucket_of (jobs, job_id) = job;
	jobs->job_count++;
	return job;
}

static struct jobs_part *
find_part (const struct jobs_agent *agent, uint32_t job_id)
{
	struct jobs_part *part = agent->parts;
	while (part && part->job->id != job_id)
		part = part->next_of_agent;
	return part;
}

static void
link_part (struct jobs_part *part)
{
	struct job *job = part->job;
	struct jobs_agent *agent = part->agent;
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

static void
unlink_part (struct jobs_part *part)
{
	*part->link_of_job = part->next_of_job;
	if (part->next_of_job)
		part->next_of_job->link_of_job = part->link_of_job;
	*part->link_of_agent = part->next_of_agent;
	if (part->next_of_agent)
		part->next_of_agent->link_of_agent = part->link_of_agent;
	part->agent->part_count--;
}

static struct jobs_part *
make_part (struct jobs *jobs, struct jobs_agent *agent, uint32_t job_id)
{
	struct job *job = find_job (jobs, job_id);
	struct jobs_part *part = NULL;
	if (jobs->part_count < JOBS_MAX_PARTS && agent->part_count < JOBS_MAX_PARTS_OF_AGENT
	    && (job || (job = make_job (jobs, job_id))))
		part = calloc (1, sizeof *part);
	if (!part) {
		jobs->counts.left_alone++;
		return NULL;
	}
	part->job = job;
	part->agent = agent;
	link_part (part);
	jobs->part_count++;
	return part;
}

static void
forget_job (struct jobs *jobs, struct job *job)
{
	struct job **link = bucket_of (jobs, job->id);
	while (*link != job)
		link = &(*link)->next_in_bucket;
	*link = job->next_in_bucket;
	jobs->job_count--;
	free (job);
}

/* ---- words ---- */

static void
tell_all (struct jobs *jobs, const struct job *job)
{
	for (struct jobs_part *part = job->parts; part; part = part->next_of_job)
		jobs->say (jobs->speaker, part->agent, &job->word);
}

/* Tells what is new; of each burst the first verdict, whatever it is. */
static void
set_word (struct jobs *jobs, struct job *job, const struct wire_word *word)
{
	struct wire_word before = job->word;
	jobs->holding_count += word->action != WIRE_GO;
	jobs->holding_count -= before.action != WIRE_GO;
	job->word = *word;
	if (job->is_decided && word->action == before.action
	    && fabs ((double)word->rate - (double)before.rate)
		   <= noticeable * (double)before.rate)
		return;
	job->is_decided = 1;
	tell_all (jobs, job);
}

static void
release (struct jobs *jobs, struct job *job)
{
	const struct wire_word go = { .job_id = job->id, .action = WIRE_GO };
	set_word (jobs, job, &go);
}

/* ---- bursts ---- */

/* Who writes on the lanes of a job has changed, or how fast they may. */
static void
note_change (struct jobs *jobs, const struct job *job, double clock)
{
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
		if (!job->lane_mask || job->lane_mask >> lane & 1u)
			jobs->changed[lane] = clock;
}

static double
last_change (const struct jobs *jobs, const struct job *job)
{
	double last = 0.0;
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
		if (!job->lane_mask || job->lane_mask >> lane & 1u)
			last = larger (last, jobs->changed[lane]);
	return last;
}

/* Clock from which a job's rate says what it can do. Its first second may show what caches
 * take; what others have cached before they were held, or done, is written unseen. */
static double
settled_at (const struct jobs *jobs, const struct job *job)
{
	double last = last_change (jobs, job);
	return last > job->heard ? larger (job->settled, last + sluice_turns_drained)
				 : job->settled;
}

/* For the time since it was last held, or slowed down. */
static void
charge (struct jobs *jobs, struct job *job, double clock)
{
	double seconds = (1.0 - job->share) * (clock - job->charged);
	sluice_turns_pass (jobs->respite, job->share, clock - job->charged, &job->stretch,
			   &job->went);
	job->held += seconds;
	job->waited += jobs->holds ? seconds : 0.0;
	job->held_in_all += seconds;
	jobs->counts.held_seconds += seconds;
	jobs->counts.held_node_seconds += seconds * job->nodes;
	job->charged = clock;
}

static void
begin_window (struct job *job, double clock)
{
	job->window_began = clock;
	job->is_window_clean = 1;
	for (struct jobs_part *part = job->parts; part; part = part->next_of_job) {
		part->window_sent = part->sent;
		part->window_bytes = part->bytes;
		part->window_operations = part->operations;
	}
}

static void
begin_burst (struct jobs *jobs, struct job *job, double began, double clock)
{
	jobs->active[jobs->active_count++] = job;
	job->place = jobs->active_count;
	job->began = began;
	job->heard = clock;
	job->settled
	    = larger (clock + backlog, last_change (jobs, job) + sluice_turns_drained);
	job->charged = clock;
	job->share = 1.0;
	job->held = job->waited = job->stretch = job->went = 0.0;
	job->is_out_of_budget = job->is_decided = 0;
	job->done = job->pace = (struct volume){ 0.0, 0.0 };
	job->reason = SLUICE_TURN_NOT_FULL;
	job->burst_holds = job->first = job->first_nodes = 0;
	job->saving = NAN;
	job->since = began;
	job->seen = (struct volume){ 0.0, 0.0 };
	begin_window (job, clock);
	note_change (jobs, job, clock);
	jobs->counts.bursts++;
	jobs->have_changed = 1;
}

static uint64_t
rise (uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/* What the parts did from report to report, by their agents' clocks. -1: one that is in the
 * burst has not reported yet in this window. */
static int
measure (const struct job *job, struct volume *rate)
{
	*rate = (struct volume){ 0.0, 0.0 };
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job) {
		double seconds = (double)rise (part->window_sent, part->sent) * 1e-9;
		if (seconds > 0.0) {
			rate->bytes
			    += (double)rise (part->window_bytes, part->bytes) / seconds;
			rate->operations
			    += (double)rise (part->window_operations, part->operations)
			       / seconds;
		} else if (part->is_active) {
			return -1;
		}
	}
	return 0;
}

/* Reports lie up to a second before the window. */
static void
end_window (const struct jobs *jobs, struct job *job, double clock)
{
	double seconds = clock - job->window_began;
	int is_settled = job->window_began >= job->heard + backlog;
	struct volume rate;
	if (measure (job, &rate) < 0)
		return;
	job->seen = rate;
	if (is_settled && job->waited <= 0.0) {
		job->best.bytes = larger (job->best.bytes, rate.bytes);
		job->best.operations = larger (job->best.operations, rate.operations);
	}
	/* Unseen, others only ever make it slower: the fastest window counts, for a while.
	 */
	if (job->is_window_clean && job->window_began >= settled_at (jobs, job)) {
		double kept = exp (-seconds / memory);
		job->clean.bytes = larger (rate.bytes, kept * job->clean.bytes);
		job->clean.operations
		    = larger (rate.operations, kept * job->clean.operations);
		job->clean_seconds += seconds;
	}
	begin_window (job, clock);
}

/* A log line between two checkpoints says nothing of the next one. */
static void
learn_volume (struct job *job)
{
	if (job->done.bytes < negligible * job->last.bytes
	    && job->done.operations < negligible * job->last.operations)
		return;
	job->last = job->done;
}

/* Of a job whose bursts are too short for a window. */
static void
learn_rate (struct job *job, double clock)
{
	double seconds = clock - job->began - job->waited - quiet;
	if (job->best.bytes > 0.0 || job->best.operations > 0.0 || seconds < window)
		return;
	job->best.bytes = job->done.bytes / seconds;
	job->best.operations = job->done.operations / seconds;
}

static void
tell_held (const struct jobs *jobs, const struct job *job, double clock)
{
	const struct jobs_held_burst burst = {
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
	if (jobs->tell && job->burst_holds)
		jobs->tell (jobs->listener, &burst, clock);
}

static void
end_burst (struct jobs *jobs, struct job *job, double clock)
{
	struct job *moved = jobs->active[--jobs->active_count];
	charge (jobs, job, clock);
	tell_held (jobs, job, clock);
	learn_volume (job);
	learn_rate (job, clock);
	jobs->active[job->place - 1] = moved;
	moved->place = job->place;
	job->place = 0;
	job->share = 1.0;
	release (jobs, job);
	note_change (jobs, job, clock);
	jobs->have_changed = 1;
}

static void
set_active (struct jobs *jobs, struct jobs_part *part, int is_active, double began,
	    double clock)
{
	struct job *job = part->job;
	if (is_active && !part->is_active && job->active_parts++ == 0)
		begin_burst (jobs, job, began, clock);
	if (!is_active && part->is_active && --job->active_parts == 0)
		end_burst (jobs, job, clock);
	part->is_active = is_active != 0;
}

static void
forget_part (struct jobs *jobs, struct jobs_part *part, double clock)
{
	struct job *job = part->job;
	set_active (jobs, part, 0, 0.0, clock);
	unlink_part (part);
	free (part);
	jobs->part_count--;
	if (!job->parts)
		forget_job (jobs, job);
}

/* ---- reports ---- */

/* Counters only rise, and before the first report nothing counts but its burst. */
static void
count (struct jobs *jobs, struct jobs_part *part, const struct wire_burst *burst,
       int is_first)
{
	struct job *job = part->job;
	uint64_t bytes = rise (is_first ? burst->base_bytes : part->bytes, burst->bytes);
	uint64_t operations = rise (is_first ? burst->base_operations : part->operations,
				    burst->operations);
	if (burst->flags & WIRE_ACTIVE || part->is_active) {
		job->done.bytes += (double)bytes;
		job->done.operations += (double)operations;
	}
	jobs->counts.bytes += (double)bytes;
	jobs->counts.uncovered_bytes
	    += (double)rise (part->uncovered_bytes, burst->uncovered_bytes);
	jobs->counts.refused += (double)rise (part->refused, burst->refused);
	jobs->counts.budgets += (double)rise (part->exhausted, burst->exhausted);
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
keep (struct jobs_part *part, double clock)
{
	if (clock - part->kept[1].clock >= apart)
		memmove (&part->kept[1], &part->kept[0], (KEPT - 1) * sizeof part->kept[0]);
	part->kept[0] = (struct heard){
		clock,
		{ (double)part->bytes, (double)part->operations },
	};
}

static double
age_of (const struct wire_report *report, const struct wire_burst *burst)
{
	double age = (double)rise (burst->began, report->sent) * 1e-9;
	return age < 1e6 ? age : 1e6;
}

static void
take (struct jobs *jobs, struct jobs_agent *agent, const struct wire_report *report,
      const struct wire_burst *burst, double clock)
{
	struct jobs_part *part = find_part (agent, burst->job_id);
	int is_first = !part, is_active = (burst->flags & WIRE_ACTIVE) != 0;
	if (burst->flags & WIRE_GONE) {
		if (part)
			forget_part (jobs, part, clock);
		return;
	}
	if (!part && !(part = make_part (jobs, agent, burst->job_id)))
		return;
	if (is_first && !part->next_of_job)
		part->job->known_since = clock;
	if (is_active)
		set_active (jobs, part, 1, clock - age_of (report, burst), clock);
	count (jobs, part, burst, is_first);
	if (!is_active)
		set_active (jobs, part, 0, 0.0, clock);
	jobs->have_changed |= (part->flags ^ burst->flags) & (WIRE_LOCKED | WIRE_QUIET);
	part->sent = report->sent;
	part->flags = burst->flags;
	part->writers = burst->writers;
	part->may_hold = burst->may_hold;
	part->heard = clock;
	keep (part, clock);
	part->job->nodes = burst->nodes ? burst->nodes : 1;
	if (part->job->word.action != WIRE_GO || burst->flags & WIRE_HELD)
		jobs->say (jobs->speaker, agent, &part->job->word);
}

void
jobs_take (struct jobs *jobs, struct jobs_agent *agent, const struct wire_report *report,
	   double clock)
{
	agent->echo = report->sent;
	for (uint32_t i = 0; i < report->count; i++)
		take (jobs, agent, report, &report->bursts[i], clock);
}

void
jobs_drop (struct jobs *jobs, struct jobs_agent *agent, double clock)
{
	while (agent->parts)
		forget_part (jobs, agent->parts, clock);
}

/* ---- what a burst takes ---- */

static const struct sluice_corunner *
find_corunner (const struct sluice_snapshot *snapshot, uint32_t job_id)
{
	uint32_t n = snapshot ? sluice_snapshot_corunner_count (snapshot) : 0;
	for (uint32_t i = 0; i < n; i++)
		if (sluice_snapshot_corunner (snapshot, i)->job_id == job_id)
			return sluice_snapshot_corunner (snapshot, i);
	return NULL;
}

static void
look_up (struct job *job, const struct jobs_rules *rules)
{
	const struct sluice_corunner *found = find_corunner (rules->snapshot, job->id);
	job->rules = rules->number;
	if (!found)
		return; /* it is no longer published, or never was */
	sluice_turns_demand (&found->profile, job->predicted);
	job->burst_seconds = larger (found->profile.burst_seconds, 0.0);
	job->lane_mask = found->lane_mask;
	job->program = sluice_turns_program (&found->profile);
}

/* B/s and operations/s while nobody is in its way. */
static struct volume
unhindered (const struct job *job)
{
	if (job->clean_seconds >= enough)
		return job->clean;
	if (!(job->predicted[SLUICE_STATION_BYTES] > 0.0))
		return job->best;
	return (struct volume){ job->predicted[SLUICE_STATION_BYTES],
				job->predicted[SLUICE_STATION_OPERATIONS] };
}

/* s that a volume takes at these rates. */
static double
seconds_of (struct volume volume, struct volume rate)
{
	double bytes = rate.bytes > 0.0 ? volume.bytes / rate.bytes : 0.0;
	double operations
	    = rate.operations > 0.0 ? volume.operations / rate.operations : 0.0;
	return larger (bytes, operations);
}

/* What every node that is in the burst allows: s for which it may still be held. */
static double
may_hold (const struct job *job, uint32_t *flags)
{
	double least = never;
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job) {
		if (part->flags & (WIRE_LOCKED | WIRE_UNCOVERED))
			*flags |= SLUICE_TURNS_EXEMPT;
		least = smaller (least, (double)part->may_hold * 1e-9);
	}
	if (least <= 0.0 && job->held <= 0.0)
		*flags |= SLUICE_TURNS_EXEMPT;
	return least;
}

/* Its burst may be over, which is certain only when it has been so for a while: until then
 * it takes nothing, so that others need not wait for that. */
static int
is_quiet (const struct job *job)
{
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job)
		if (part->is_active && !(part->flags & WIRE_QUIET))
			return 0;
	return 1;
}

/* What a part had written at a clock, between the reports before and after it. */
static struct volume
written_at (const struct jobs_part *part, double clock)
{
	const struct heard *before = part->kept, *after = part->kept;
	while (before < part->kept + KEPT - 1 && before->clock > clock)
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
static double
moved (struct job *job, struct volume rate, double clock)
{
	struct volume sum = { 0.0, 0.0 };
	if (!(job->pace.bytes > 0.0 || job->pace.operations > 0.0))
		job->pace = rate;
	if (!(job->pace.bytes > 0.0 || job->pace.operations > 0.0))
		return -1.0;
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job) {
		struct volume one = written_at (part, clock - lag);
		sum.bytes += one.bytes;
		sum.operations += one.operations;
	}
	return seconds_of (sum, job->pace);
}

/* Whether reports tell of a time, and of some progress in each part of it: a call that
 * writes for seconds is not counted before its end. */
static int
is_told (const struct jobs_part *part, double from, double to, int progresses)
{
	int told = part->kept[0].clock >= to, i = 0;
	for (; told && i < KEPT - 1 && part->kept[i].clock > from; i++) {
		const struct heard *after = &part->kept[i], *before = after + 1;
		told = before->clock > 0.0
		       && (!progresses || after->volume.bytes > before->volume.bytes
			   || after->volume.operations > before->volume.operations);
	}
	return told && part->kept[i].clock <= from;
}

/* Share of its full speed at which a job went between two clocks; below 0: not known. What
 * it got among others says nothing of its full speed. */
static double
speed_between (const struct job *job, double from, double to)
{
	struct volume sum = { 0.0, 0.0 };
	int goes = job->share > 0.0;
	if (to - from < least_watched
	    || !(job->clean_seconds >= enough
		 || job->predicted[SLUICE_STATION_BYTES] > 0.0))
		return -1.0;
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job) {
		if (!part->is_active)
			continue;
		if (!is_told (part, from, to, goes)
		    || (!goes && part->flags & WIRE_WRITING))
			return -1.0;
		struct volume before = written_at (part, from),
			      after = written_at (part, to);
		sum.bytes += after.bytes - before.bytes;
		sum.operations += after.operations - before.operations;
	}
	return seconds_of (sum, unhindered (job)) / (to - from);
}

/* The same since the same jobs have written on its lanes, as reports tell of that. */
static double
speed_of (const struct jobs *jobs, const struct job *job, double clock)
{
	double to = clock - lag;
	return speed_between (job, larger (to - most_watched, settled_at (jobs, job)), to);
}

/* Jobs without a profile are alike by the size of their writes, by factors of 8. */
static uint64_t
program_of (const struct job *job)
{
	struct volume volume = job->last.operations > 0.0 ? job->last : job->done;
	if (job->program || !(volume.operations > 0.0))
		return job->program;
	return 2u * (uint64_t)lround (log2 (1.0 + volume.bytes / volume.operations) / 3.0);
}

static void
describe (const struct jobs *jobs, struct job *job, double clock,
	  struct sluice_turns_job *out)
{
	struct volume rate = unhindered (job);
	double last = seconds_of (job->last, rate);
	*out = (struct sluice_turns_job){
		.key = job->id,
		.nodes = job->nodes,
		.expected = last > 0.0 ? last : job->burst_seconds,
		.done = seconds_of (job->done, rate),
		.held = job->held,
		.stretch = job->stretch,
		.went = job->went,
		.began = job->began < clock ? job->began : clock,
		.allowed = jobs->holds ? job->share : 1.0,
		.moved = moved (job, rate, clock),
		.program = program_of (job),
		.lane_mask = job->lane_mask,
	};
	if (is_quiet (job))
		return;
	out->speed = speed_of (jobs, job, clock);
	out->demand[SLUICE_STATION_BYTES] = out->demand[SLUICE_STATION_LINKS] = rate.bytes;
	out->demand[SLUICE_STATION_OPERATIONS] = rate.operations;
	out->demand[SLUICE_STATION_METADATA] = job->predicted[SLUICE_STATION_METADATA];
	out->most_held = job->held + may_hold (job, &out->flags);
}

/* ---- the storage ---- */

/* Less what a job takes of which no bursts are seen, in the mean; a tenth is left, because
 * no capacity would mean that it is unknown. */
static void
take_off (struct sluice_turns_storage *storage, const struct sluice_turns_storage *all,
	  const struct sluice_corunner *other)
{
	uint32_t every = (1u << all->lane_count) - 1u;
	uint32_t mask = other->lane_mask & every ? other->lane_mask & every : every;
	double rate = larger (other->profile.rate, 0.0), targets = 0.0;
	rate *= smaller (larger (other->profile.io_share, 0.0), 1.0);
	for (uint32_t rest = mask; rest; rest &= rest - 1u)
		targets += all->lanes[__builtin_ctz (rest)].targets;
	for (uint32_t rest = mask; rest && targets > 0.0; rest &= rest - 1u) {
		int lane = __builtin_ctz (rest);
		double part = all->lanes[lane].targets / targets;
		storage->lanes[lane].bytes = larger (
		    storage->lanes[lane].bytes - rate * part, 0.1 * all->lanes[lane].bytes);
	}
}

static void
leave_to_others (struct jobs *jobs, const struct jobs_rules *rules,
		 struct sluice_turns_storage *storage)
{
	uint32_t n = rules->snapshot ? sluice_snapshot_corunner_count (rules->snapshot) : 0;
	*storage = rules->storage;
	for (uint32_t i = 0; i < n; i++) {
		const struct sluice_corunner *one
		    = sluice_snapshot_corunner (rules->snapshot, i);
		if (!find_job (jobs, one->job_id))
			take_off (storage, &rules->storage, one);
	}
}

static uint32_t
lanes_of (const struct job *job, const struct jobs_rules *rules)
{
	uint32_t all = (1u << rules->storage.lane_count) - 1u;
	return job->lane_mask & all ? job->lane_mask & all : all;
}

/* ---- deciding ---- */

static void
seek_silent (struct jobs *jobs, double clock)
{
	if (clock - jobs->listened < 1.0)
		return;
	jobs->listened = clock;
	for (uint32_t i = jobs->active_count; i-- > 0;) {
		struct jobs_part *next, *part = jobs->active[i]->parts;
		for (; part; part = next) {
			next = part->next_of_job;
			if (!part->is_active || clock - part->heard < jobs_silence)
				continue;
			jobs->counts.silent++;
			set_active (jobs, part, 0, 0.0, clock);
		}
	}
}

/* The share of its fullest station that a rate takes of one lane of a job. */
static double
share_of_lane (struct volume rate, uint32_t lanes, int lane,
	       const struct sluice_turns_storage *storage)
{
	const struct sluice_turns_lane *here = &storage->lanes[lane];
	double targets = 0.0, bytes, operations;
	for (uint32_t rest = lanes; rest; rest &= rest - 1u)
		targets += storage->lanes[__builtin_ctz (rest)].targets;
	double part = targets > 0.0 ? here->targets / targets : 0.0;
	bytes = here->bytes > 0.0 ? part * rate.bytes / here->bytes : 0.0;
	operations
	    = here->operations > 0.0 ? part * rate.operations / here->operations : 0.0;
	return larger (bytes, operations);
}

/* What is served of each lane. While somebody waits for it, it is full: who was held last
 * may have filled caches that are written now, unseen. */
static void
see_lanes (const struct jobs *jobs, const struct jobs_rules *rules,
	   double seen[SLUICE_MAX_LANES])
{
	for (uint32_t i = 0; i < jobs->active_count; i++) {
		const struct job *job = jobs->active[i];
		uint32_t lanes = lanes_of (job, rules);
		for (uint32_t rest = lanes; rest; rest &= rest - 1u) {
			int lane = __builtin_ctz (rest);
			seen[lane]
			    += share_of_lane (job->seen, lanes, lane, &jobs->storage);
			if (job->share < 1.0)
				seen[lane] = larger (seen[lane], nearly_full);
		}
	}
}

/* What is seen of a job that shares a full lane says what it got, not what it would take.
 * Until it has been measured undisturbed it is taken to fill the lane: so it is measured
 * in its first turn. */
static void
stretch_best (const struct jobs *jobs, struct job *job, const struct jobs_rules *rules,
	      const double *seen)
{
	double most = 0.0;
	uint32_t lanes = lanes_of (job, rules);
	for (uint32_t rest = lanes; rest; rest &= rest - 1u) {
		int lane = __builtin_ctz (rest);
		if (seen[lane] >= nearly_full)
			most = larger (
			    most, share_of_lane (job->best, lanes, lane, &jobs->storage));
	}
	if (job->clean_seconds >= enough || !(most > 0.0 && most < 1.0))
		return;
	job->best.bytes /= most;
	job->best.operations /= most;
}

/* A call that is under way when the word to wait comes goes on, and may write a whole
 * checkpoint. */
static int
may_write (const struct job *job, const struct jobs_rules *rules)
{
	int writes = job->share > 0.0 || !rules->holds;
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job)
		writes |= part->is_active && part->flags & WIRE_WRITING;
	return writes;
}

/* Windows stay clean in which nobody else writes on the job's lanes. */
static void
watch_windows (struct jobs *jobs, const struct jobs_rules *rules, double clock)
{
	uint32_t writing[SLUICE_MAX_LANES] = { 0 };
	double seen[SLUICE_MAX_LANES] = { 0.0 };
	for (uint32_t i = 0; i < jobs->active_count; i++)
		if (may_write (jobs->active[i], rules))
			for (uint32_t rest = lanes_of (jobs->active[i], rules); rest;
			     rest &= rest - 1u)
				writing[__builtin_ctz (rest)]++;
	for (uint32_t i = 0; i < jobs->active_count; i++) {
		struct job *job = jobs->active[i];
		int is_alone = job->share >= 1.0 || !rules->holds;
		for (uint32_t rest = lanes_of (job, rules); rest; rest &= rest - 1u)
			is_alone &= writing[__builtin_ctz (rest)] <= 1;
		job->is_window_clean &= (uint32_t)is_alone;
		if (clock - job->window_began >= window)
			end_window (jobs, job, clock);
	}
	see_lanes (jobs, rules, seen);
	for (uint32_t i = 0; i < jobs->active_count; i++)
		stretch_best (jobs, jobs->active[i], rules, seen);
}

static uint64_t
nanoseconds (double seconds)
{
	return seconds < 1e9 ? (uint64_t)(larger (seconds, 0.0) * 1e9) : UINT64_MAX;
}

/* B/s of each process, as shims count them: small writes weigh as one of the least size. */
static uint64_t
rate_of (const struct job *job, double share)
{
	const double least = SLUICE_TURNS_MIN_WRITE;
	struct volume rate = unhindered (job);
	double writers = 0.0;
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job)
		writers += part->is_active ? part->writers : 0;
	double bytes = larger (rate.bytes, least * rate.operations);
	return (uint64_t)smaller (larger (share * bytes / larger (writers, 1.0), least),
				  1e15);
}

static void
word_of (const struct job *job, const struct jobs_rules *rules,
	 const struct sluice_turn *turn, double clock, struct wire_word *word)
{
	*word = (struct wire_word){ .job_id = job->id };
	if (turn->share >= 1.0)
		return;
	word->action = turn->share > 0.0 ? WIRE_TRICKLE : WIRE_HOLD;
	word->share = (uint32_t)(turn->share * 1e6);
	word->rate = turn->share > 0.0 ? rate_of (job, turn->share) : 0;
	word->most_held = nanoseconds (job->held + turn->until - clock);
	word->longest_ms = (uint32_t)(1e3 * rules->settings.hold);
}

static const char *
why_released (uint32_t reason)
{
	switch (reason) {
	case SLUICE_TURN_BUDGET:
		return "budget";
	case SLUICE_TURN_STRETCH:
		return "stretch";
	case SLUICE_TURN_TRIAL:
		return "trial";
	case SLUICE_TURN_NO_HELP:
		return "no_help";
	default:
		return "turn";
	}
}

static void
note (struct jobs *jobs, struct job *job, const struct sluice_turn *turn, double clock)
{
	int is_held = turn->share < 1.0, was_held = job->share < 1.0;
	if (is_held && !was_held) {
		jobs->counts.holds++;
		job->first_held = job->holds++ ? job->first_held : clock;
		job->burst_holds++;
	}
	if (is_held != was_held)
		job->since = clock;
	if (was_held && !is_held)
		job->ended = why_released (turn->reason);
	if (turn->reason != job->reason) {
		jobs->counts.trials += turn->reason == SLUICE_TURN_TRIAL;
		jobs->counts.let_go += turn->reason == SLUICE_TURN_NO_HELP;
	}
	job->reason = turn->reason;
	if (turn->share < job->share || turn->share > job->share)
		note_change (jobs, job, clock);
	if (turn->reason == SLUICE_TURN_BUDGET && !job->is_out_of_budget)
		jobs->counts.budgets++;
	job->is_out_of_budget = turn->reason == SLUICE_TURN_BUDGET;
	job->share = turn->share;
}

/* The core names the burst that a hold is for; it stands until the next one does. */
static void
record_first (const struct jobs *jobs, struct job *job, const struct sluice_turn *turn)
{
	if (turn->first == SLUICE_TURN_NO_BURST)
		return;
	job->first = jobs->active[turn->first]->id;
	job->first_nodes = jobs->active[turn->first]->nodes;
	if (isnan (job->saving))
		job->saving = turn->saving;
}

static void
follow (struct jobs *jobs, const struct jobs_rules *rules, struct job *job,
	const struct sluice_turn *turn, double clock)
{
	struct wire_word word;
	note (jobs, job, turn, clock);
	record_first (jobs, job, turn);
	word_of (job, rules, turn, clock, &word);
	if (rules->holds)
		set_word (jobs, job, &word);
	else
		release (jobs, job);
}

static double
release_all (struct jobs *jobs, double clock)
{
	for (uint32_t i = 0; i < jobs->active_count; i++) {
		charge (jobs, jobs->active[i], clock);
		if (jobs->active[i]->share < 1.0) {
			jobs->active[i]->ended = "off";
			jobs->active[i]->since = clock;
		}
		jobs->active[i]->share = 1.0;
		release (jobs, jobs->active[i]);
	}
	return INFINITY;
}

double
jobs_decide (struct jobs *jobs, const struct jobs_rules *rules, double clock)
{
	struct sluice_turns_storage said;
	seek_silent (jobs, clock);
	jobs->have_changed = 0;
	jobs->holds = rules->holds;
	jobs->respite = sluice_turns_respite (&rules->settings);
	if (rules->is_off || rules->storage.lane_count == 0)
		return release_all (jobs, clock);
	leave_to_others (jobs, rules, &said);
	if (jobs->storage.lane_count != said.lane_count) {
		sluice_turns_memory_init (&jobs->memory);
		jobs->storage = said;
	}
	for (uint32_t i = 0; i < jobs->active_count; i++) {
		charge (jobs, jobs->active[i], clock);
		if (jobs->active[i]->rules != rules->number)
			look_up (jobs->active[i], rules);
	}
	watch_windows (jobs, rules, clock);
	for (uint32_t i = 0; i < jobs->active_count; i++)
		describe (jobs, jobs->active[i], clock, &jobs->described[i]);
	double again
	    = sluice_turns_learn (&rules->settings, &said, jobs->described,
				  jobs->active_count, clock, &jobs->memory, &jobs->storage);
	again = smaller (again, sluice_turns_decide (&rules->settings, &jobs->storage,
						     jobs->described, jobs->active_count,
						     clock, jobs->order, jobs->turns));
	/* Where nobody is held in truth, trials show nothing. */
	if (rules->holds)
		again = smaller (again,
				 sluice_turns_check (&rules->settings, &jobs->storage,
						     jobs->described, jobs->active_count,
						     clock, &jobs->check, jobs->turns));
	for (uint32_t i = 0; i < jobs->active_count; i++)
		follow (jobs, rules, jobs->active[i], &jobs->turns[i], clock);
	return again;
}

int
jobs_have_changed (const struct jobs *jobs)
{
	return jobs->have_changed;
}

/* ---- for people ---- */

const struct jobs_counts *
jobs_counts (const struct jobs *jobs)
{
	return &jobs->counts;
}

uint32_t
jobs_count (const struct jobs *jobs)
{
	return jobs->job_count;
}

uint32_t
jobs_active_count (const struct jobs *jobs)
{
	return jobs->active_count;
}

uint32_t
jobs_holding_count (const struct jobs *jobs)
{
	return jobs->holding_count;
}

uint32_t
jobs_list_held (const struct jobs *jobs, struct jobs_held *out, uint32_t n)
{
	uint32_t listed = 0;
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (const struct job *job = jobs->buckets[i]; job && listed < n;
		     job = job->next_in_bucket)
			if (job->holds)
				out[listed++] = (struct jobs_held){
					job->id,	  job->holds,	   job->first,
					job->held_in_all, job->first_held,
				};
	return listed;
}

uint32_t
jobs_list_bursts (const struct jobs *jobs, struct jobs_burst *out, uint32_t n)
{
	uint32_t listed = jobs->active_count < n ? jobs->active_count : n;
	for (uint32_t i = 0; i < listed; i++) {
		const struct job *job = jobs->active[i];
		out[i] = (struct jobs_burst){
			.job_id = job->id,
			.lane_mask = job->lane_mask,
			.first = job->first,
			.reason = job->reason,
			.share = job->share,
			.since = job->since,
		};
	}
	return listed;
}

double
jobs_lane_scale (const struct jobs *jobs, uint32_t lane)
{
	return jobs->memory.stations[lane * SLUICE_STATION_METADATA].scale;
}

static int
is_unseen (const struct job *job)
{
	for (const struct jobs_part *part = job->parts; part; part = part->next_of_job)
		if (part->bytes || part->operations)
			return 0;
	return 1;
}

uint32_t
jobs_list_unseen (const struct jobs *jobs, struct jobs_unseen *out, uint32_t n)
{
	uint32_t listed = 0;
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (const struct job *job = jobs->buckets[i]; job && listed < n;
		     job = job->next_in_bucket)
			if (is_unseen (job))
				out[listed++]
				    = (struct jobs_unseen){ job->id, job->known_since };
	return listed;
}

void
jobs_destroy (struct jobs *jobs)
{
	for (uint32_t i = 0; jobs && i < BUCKETS; i++)
		for (struct job *job = jobs->buckets[i], *next; job; job = next) {
			next = job->next_in_bucket;
			for (struct jobs_part *part = job->parts, *after; part;
			     part = after) {
				after = part->next_of_job;
				free (part);
			}
			free (job);
		}
	free (jobs);
}
