#include "control_loop.h"

/* What a partition has left while Slurm goes through its queue. */
struct left {
	double nodes;
	double cpus;
};

static struct left
left_in (const struct sluice_control_room *room)
{
	return (struct left){ room->nodes, room->cpus };
}

static int
fits (const struct sluice_control_job *job, struct left left)
{
	return job->nodes <= left.nodes && job->cpus <= left.cpus;
}

/*
 * Whether Slurm started `other` out of turn: it ranks behind by now, and did when it
 * started. A priority grows with age while a job waits, and no more when it runs: an
 * older job ranked behind only if it is below what this one had from the beginning.
 */
static int
is_out_of_turn (const struct sluice_control_job *other,
		const struct sluice_control_job *job)
{
	int is_younger
	    = other->eligible > job->eligible
	      || (other->eligible == job->eligible && other->job_id > job->job_id);
	if (other->priority == job->priority)
		return is_younger;
	return other->priority < job->priority
	       && (is_younger || other->priority < job->memory.priority);
}

/* Whether the job fits with what jobs hold that overtook it since it became eligible: of
 * those that rank behind, if any has started since then. The running jobs are listed. */
static int
could_have_fit (const struct sluice_control *c, const struct sluice_control_job *jobs,
		const struct sluice_control_job *job, struct left left)
{
	for (uint32_t k = 0; job->eligible > 0 && k < c->listed_count; k++) {
		const struct sluice_control_job *other = &jobs[c->listed[k]];
		if (other->partition != job->partition || other->start < job->eligible
		    || !is_out_of_turn (other, job))
			continue;
		left.nodes += other->nodes;
		left.cpus += other->cpus;
		if (fits (job, left))
			return 1;
	}
	return 0;
}

static int
lacks_tokens (const struct sluice_control_job *job,
	      const struct sluice_control_facts *facts)
{
	return job->tokens.lane_mask && !has_free_tokens (job, facts);
}

/* Whether Slurm is about to start it. One that fits and does not start needs something
 * that is not counted here. */
static int
starts_soon (struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	struct sluice_control_memory *memory = &job->memory;
	if (memory->fits <= 0.0)
		memory->fits = facts->clock;
	return job->flags & SLUICE_CONTROL_QUEUES && !lacks_tokens (job, facts)
	       && facts->clock - memory->fits < SLUICE_CONTROL_START;
}

static void
judge_room (const struct sluice_control *c, const struct sluice_control_job *jobs,
	    struct sluice_control_job *job, struct left *left,
	    const struct sluice_control_facts *facts)
{
	if (fits (job, *left)) {
		job->flags |= SLUICE_CONTROL_ROOM;
		if (starts_soon (job, facts)) {
			left->nodes -= job->nodes;
			left->cpus -= job->cpus;
		}
		return;
	}
	job->memory.fits = 0.0;
	if (lacks_tokens (job, facts) && could_have_fit (c, jobs, job, *left))
		job->flags |= SLUICE_CONTROL_ROOM;
}

/* A key that sorts by partition, then by falling priority. */
static double
place_of (const struct sluice_control_job *job)
{
	return (double)job->partition * 4294967296.0 + (double)(UINT32_MAX - job->priority);
}

/* Whether a waiting job takes part in the queue for room; else there is room. */
static int
is_queued (const struct sluice_control_job *job, const struct sluice_control_room *rooms,
	   uint32_t room_count)
{
	return !(job->flags & SLUICE_CONTROL_ANYWHERE) && job->partition < room_count
	       && !rooms[job->partition].is_unlimited;
}

static int
is_room_needed (const struct sluice_control_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (wants_tokens (&jobs[i]))
			return 1;
	return 0;
}

void
sluice_control_room (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n,
		     const struct sluice_control_room *rooms, uint32_t room_count,
		     const struct sluice_control_facts *facts)
{
	int is_needed = is_room_needed (jobs, n);
	uint32_t count = 0;
	struct left left = { 0 };

	c->listed_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct sluice_control_job *job = &jobs[i];
		job->flags &= ~(uint32_t)SLUICE_CONTROL_ROOM;
		if (job->memory.priority == 0)
			job->memory.priority = job->priority;
		if (job->state == SLUICE_CONTROL_RUNS)
			c->listed[c->listed_count++] = i;
		if (job->state != SLUICE_CONTROL_WAITS)
			job->memory.fits = 0.0;
		else if (is_needed && is_queued (job, rooms, room_count))
			sluice_control_rank (c, &count, place_of (job), jobs, i);
		else if (is_needed)
			job->flags |= SLUICE_CONTROL_ROOM;
	}
	sluice_control_sort (c, count);
	for (uint32_t k = 0, last = room_count; k < count; k++) {
		struct sluice_control_job *job = &jobs[c->ranked[k].index];
		if (job->partition != last)
			left = left_in (&rooms[job->partition]);
		last = job->partition;
		judge_room (c, jobs, job, &left, facts);
	}
}
