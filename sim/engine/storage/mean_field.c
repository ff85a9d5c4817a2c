/*
 * Moves the mean-field storage model through time: a heap of the jobs' next events, and a
 * solution of the network whenever the set of bursts has changed. Nothing here
 * fails after sluice_mean_field_start.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mean_field_state.h"

enum { NO_PLACE = UINT32_MAX };

static int
is_before (const struct sluice_mean_field *w, uint32_t a, uint32_t b)
{
	const struct mean_field_job *x = &w->jobs[a], *y = &w->jobs[b];
	return x->next < y->next || (!(y->next < x->next) && x->order < y->order);
}

static void
put (struct sluice_mean_field *w, uint32_t place, uint32_t slot)
{
	w->heap[place] = slot;
	w->jobs[slot].heap_at = place;
}

/* Restore the order of the heap around one job whose time has changed. */
static void
settle_in_heap (struct sluice_mean_field *w, uint32_t slot)
{
	uint32_t at = w->jobs[slot].heap_at;
	for (; at && is_before (w, slot, w->heap[(at - 1) / 2]); at = (at - 1) / 2)
		put (w, at, w->heap[(at - 1) / 2]);
	for (uint32_t child; (child = 2 * at + 1) < w->heap_count; at = child) {
		if (child + 1 < w->heap_count
		    && is_before (w, w->heap[child + 1], w->heap[child]))
			child++;
		if (!is_before (w, w->heap[child], slot))
			break;
		put (w, at, w->heap[child]);
	}
	put (w, at, slot);
}

static void
remove_from_heap (struct sluice_mean_field *w, uint32_t slot)
{
	uint32_t at = w->jobs[slot].heap_at;
	uint32_t last = w->heap[--w->heap_count];
	if (last == slot)
		return;
	put (w, at, last);
	settle_in_heap (w, last);
}

static void
schedule (struct sluice_mean_field *w, struct mean_field_job *job, double next)
{
	job->next = next;
	settle_in_heap (w, (uint32_t)(job - w->jobs));
}

/* Room for one more job, and for its burst on every lane. */
static int
grow (struct sluice_mean_field *w)
{
	uint32_t room = w->room ? 2 * w->room : 64;
	struct mean_field_job *jobs = realloc (w->jobs, room * sizeof *jobs);
	if (jobs)
		w->jobs = jobs;
	uint32_t *heap = realloc (w->heap, room * sizeof *heap);
	if (heap)
		w->heap = heap;
	uint32_t *unused = realloc (w->free, room * sizeof *unused);
	if (unused)
		w->free = unused;
	struct mean_field_term *terms = realloc (w->terms, room * sizeof *terms);
	if (terms)
		w->terms = terms;
	int failed = !jobs || !heap || !unused || !terms
		     || burst_control_grow (&w->control, room) < 0;
	for (uint32_t i = 0; i < w->config.lane_count; i++) {
		struct mean_field_lane *lane = &w->lanes[i];
		uint32_t *active = realloc (lane->active, room * sizeof *active);
		if (active)
			lane->active = active;
		failed |= !active;
	}
	if (failed)
		return -1;
	memset (w->jobs + w->room, 0, (room - w->room) * sizeof *jobs);
	for (uint32_t slot = room; slot > w->room; slot--)
		w->free[w->free_count++] = slot - 1;
	w->room = room;
	return 0;
}

struct sluice_mean_field *
sluice_mean_field_new (const struct sluice_mean_field_config *config,
		       struct sluice_error *err)
{
	if (sluice_mean_field_config_check (config, err) < 0)
		return NULL;
	struct sluice_mean_field *w = calloc (1, sizeof *w);
	if (!w) {
		sluice_fail (err, "no memory for a storage model");
		return NULL;
	}
	w->config = *config;
	w->now = -INFINITY;
	mean_field_init_turns (w);
	return w;
}

void
sluice_mean_field_destroy (struct sluice_mean_field *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < SLUICE_MAX_LANES; i++)
		free (w->lanes[i].active);
	free (w->jobs);
	free (w->heap);
	free (w->free);
	free (w->terms);
	burst_control_free (&w->control);
	free (w);
}

/* Add the burst of a job to its stations (sign 1), or take it away (-1): what they
 * would have to do if no job waited, by which most are seen to be far from full. */
static void
add_peaks (struct sluice_mean_field *w, const struct mean_field_job *job, double sign)
{
	for (uint32_t rest = job->mask; rest; rest &= rest - 1U) {
		uint32_t i = mean_field_home (rest);
		struct mean_field_lane *lane = &w->lanes[i];
		double target = mean_field_load_at (w, MEAN_FIELD_TARGET, i, job);
		double server = mean_field_load_at (w, MEAN_FIELD_SERVER, i, job);
		/* An empty lane starts anew: no rounding is carried on for years. */
		lane->target_peak = lane->count ? lane->target_peak : 0.0;
		lane->server_peak = lane->count ? lane->server_peak : 0.0;
		lane->target_peak += sign * target * job->peak;
		lane->server_peak += sign * server * job->peak;
	}
	w->metadata_peak = w->burst_count ? w->metadata_peak : 0.0;
	w->metadata_peak += sign * job->load.metadata_seconds * job->peak;
	w->wide_count += sign > 0.0 ? mean_field_is_wide (job->mask) : 0;
	w->wide_count -= sign < 0.0 ? mean_field_is_wide (job->mask) : 0;
	w->dirty |= job->mask;
}

static void
enter_lanes (struct sluice_mean_field *w, struct mean_field_job *job)
{
	add_peaks (w, job, 1.0);
	w->burst_count++;
	for (uint32_t rest = job->mask; rest; rest &= rest - 1U) {
		struct mean_field_lane *lane = &w->lanes[mean_field_home (rest)];
		lane->active[lane->count++] = (uint32_t)(job - w->jobs);
	}
}

static void
leave_lanes (struct sluice_mean_field *w, struct mean_field_job *job)
{
	uint32_t slot = (uint32_t)(job - w->jobs);
	for (uint32_t rest = job->mask; rest; rest &= rest - 1U) {
		struct mean_field_lane *lane = &w->lanes[mean_field_home (rest)];
		uint32_t i = 0;
		while (lane->active[i] != slot)
			i++;
		lane->count--;
		memmove (lane->active + i, lane->active + i + 1,
			 (lane->count - i) * sizeof *lane->active);
	}
	w->burst_count--;
	add_peaks (w, job, -1.0);
}

static void
begin_burst (struct sluice_mean_field *w, struct mean_field_job *job)
{
	job->phase = MEAN_FIELD_WRITING;
	job->burst_began = job->since = w->now;
	job->burst = mean_field_burst_length (w, job, job->bursts_left);
	job->remaining = job->burst;
	job->speed = 1.0;
	burst_begin (&job->turn, w->now);
	enter_lanes (w, job);
	burst_control_ask (&w->control, w->now);
	schedule (w, job, w->now + job->remaining);
}

static void
begin_cycle (struct sluice_mean_field *w, struct mean_field_job *job)
{
	job->compute_until = w->now + job->load.compute;
	if (job->bursts_left && (job->load.async || job->load.compute <= 0.0)) {
		begin_burst (w, job);
		return;
	}
	job->phase = MEAN_FIELD_COMPUTING;
	schedule (w, job, job->compute_until);
}

static void
account_burst (struct sluice_mean_field *w, struct mean_field_job *job, double done)
{
	job->io += w->now - job->burst_began;
	job->io_alone += done;
	leave_lanes (w, job);
	burst_end (&w->control, &job->turn, w->now);
	burst_control_ask (&w->control, w->now);
}

double
mean_field_remaining (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	return fmax (0.0, job->remaining - (w->now - job->since) * job->speed);
}

void
mean_field_set_speed (struct sluice_mean_field *w, struct mean_field_job *job, double speed)
{
	job->remaining = mean_field_remaining (w, job);
	job->since = w->now;
	job->speed = speed;
	double end = w->now + job->remaining / speed;
	schedule (w, job, speed > 0.0 || !(job->remaining > 0.0) ? end : INFINITY);
}

static void
describe_end (const struct sluice_mean_field *w, const struct mean_field_job *job,
	      double alone, struct sluice_mean_field_end *out)
{
	if (out)
		*out = (struct sluice_mean_field_end){
			.time = w->now,
			.runtime = w->now - job->started,
			.alone = alone,
			.io = job->io,
			.io_alone = job->io_alone,
			.held = job->turn.held_in_all,
			.saving = job->turn.saving_in_all,
			.tag = job->tag,
			.slot = (uint32_t)(job - w->jobs),
		};
}

static void
release (struct sluice_mean_field *w, struct mean_field_job *job)
{
	uint32_t slot = (uint32_t)(job - w->jobs);
	remove_from_heap (w, slot);
	job->phase = MEAN_FIELD_FREE;
	w->free[w->free_count++] = slot;
}

static double
alone_seconds (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	const struct sluice_mean_field_load *load = &job->load;
	double sum = 0.0;
	if (!load->bursts)
		return load->compute;
	if (!load->async)
		return load->bursts * (load->compute + load->burst);
	for (uint32_t left = load->bursts; left; left--)
		sum += fmax (load->compute, mean_field_burst_length (w, job, left));
	return sum;
}

/* What the event of a job leads to. Returns 1 when the job has ended. */
static int
step (struct sluice_mean_field *w, struct mean_field_job *job)
{
	if (job->phase == MEAN_FIELD_COMPUTING && job->bursts_left && !job->load.async) {
		begin_burst (w, job);
		return 0;
	}
	if (job->phase == MEAN_FIELD_WRITING) {
		account_burst (w, job, job->burst);
		mean_field_learn (w, job);
		job->bursts_left--;
		if (job->load.async && job->compute_until > w->now) {
			job->phase = MEAN_FIELD_COMPUTING;
			schedule (w, job, job->compute_until);
			return 0;
		}
	}
	if (!job->bursts_left)
		return 1;
	begin_cycle (w, job);
	return 0;
}

int64_t
sluice_mean_field_start (struct sluice_mean_field *w, double now,
			 const struct sluice_mean_field_load *load, uint32_t lane_mask,
			 uint64_t tag)
{
	if (!w->free_count && grow (w) < 0)
		return -1;
	w->now = fmax (w->now, now);
	uint32_t slot = w->free[--w->free_count];
	struct mean_field_job *job = &w->jobs[slot];
	uint32_t mask = lane_mask & mean_field_all_lanes (w);
	*job = (struct mean_field_job){
		.load = *load,
		.tag = tag,
		.order = w->orders++,
		.started = w->now,
		.next = INFINITY,
		.speed = 1.0,
		.mask = mask ? mask : mean_field_all_lanes (w),
		.bursts_left = load->bursts,
		.heap_at = w->heap_count,
	};
	for (uint32_t rest = job->mask; rest; rest &= rest - 1U)
		job->targets += w->config.lanes[mean_field_home (rest)].targets;
	if (load->bursts) {
		job->alone = sluice_mean_field_alone_rate (&w->config, load);
		job->peak = fmin (load->cap, load->outstanding / load->cycle);
		mean_field_set_usual (w, job);
		mean_field_expect (w, job);
	}
	w->heap[w->heap_count++] = slot;
	begin_cycle (w, job);
	return slot;
}

void
sluice_mean_field_stop (struct sluice_mean_field *w, double now, uint32_t slot,
			struct sluice_mean_field_end *out)
{
	struct mean_field_job *job = &w->jobs[slot];
	double passed = now - job->started;
	double lost = job->io - job->io_alone;
	w->now = fmax (w->now, now);
	if (job->phase == MEAN_FIELD_WRITING) {
		mean_field_set_speed (w, job, job->speed);
		account_burst (w, job, job->burst - job->remaining);
		lost = job->io - job->io_alone;
	}
	describe_end (w, job, job->load.async ? passed : passed - lost, out);
	release (w, job);
}

int
sluice_mean_field_run (struct sluice_mean_field *w, double until,
		       struct sluice_mean_field_end *out)
{
	while (w->heap_count) {
		struct mean_field_job *job = &w->jobs[w->heap[0]];
		/* What happens at one instant is one change of the set of bursts. */
		if (w->control.at <= w->now && job->next > w->now) {
			mean_field_take_turns (w);
			continue;
		}
		if (w->dirty && job->next > w->now) {
			mean_field_solve (w);
			continue;
		}
		if (fmin (job->next, w->control.at) > until)
			break;
		w->now = fmax (w->now, fmin (job->next, w->control.at));
		if (w->now < job->next)
			continue;
		if (!step (w, job))
			continue;
		describe_end (w, job, alone_seconds (w, job), out);
		release (w, job);
		return 1;
	}
	w->now = fmax (w->now, until);
	return 0;
}

double
sluice_mean_field_rate (struct sluice_mean_field *w, uint32_t slot)
{
	if (w->control.at <= w->now)
		mean_field_take_turns (w);
	if (w->dirty)
		mean_field_solve (w);
	const struct mean_field_job *job = &w->jobs[slot];
	return job->phase == MEAN_FIELD_WRITING ? job->speed : 1.0;
}
