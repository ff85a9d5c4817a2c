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

/* Room for one more job, and for its burst on every group. */
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
	uint32_t *slots = realloc (w->slots, room * sizeof *slots);
	if (slots)
		w->slots = slots;
	uint16_t *places
	    = realloc (w->places, (size_t)room * w->group_count * sizeof *places);
	if (places)
		w->places = places;
	uint64_t *bits = realloc (w->bits, (size_t)room * TARGET_WORDS * sizeof *bits);
	if (bits)
		w->bits = bits;
	failed |= !slots || !places || !bits;
	for (uint32_t i = 0; i < w->group_count; i++) {
		struct mean_field_group *group = &w->groups[i];
		struct mean_field_visit *active
		    = realloc (group->active, room * sizeof *active);
		if (active)
			group->active = active;
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
	if (mean_field_init_groups (w) == 0)
		return w;
	sluice_fail (err, "no memory for a storage model");
	sluice_mean_field_destroy (w);
	return NULL;
}

void
sluice_mean_field_destroy (struct sluice_mean_field *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < w->group_count; i++)
		free (w->groups[i].active);
	free (w->placement);
	free (w->places);
	free (w->slots);
	free (w->bits);
	free (w->jobs);
	free (w->heap);
	free (w->free);
	free (w->terms);
	burst_control_free (&w->control);
	free (w);
}

void
mean_field_mark_dirty (struct sluice_mean_field *w, const struct mean_field_job *job)
{
	const uint16_t *groups = mean_field_groups_of (w, job);
	for (uint32_t i = 0; i < job->group_count; i++)
		w->groups[groups[i]].is_dirty = 1;
	w->dirty |= job->group_count > 0;
}

/* Add the burst of a job to a group (sign 1), or take it away (-1): what its stations
 * would have to do if no job waited, by which most are seen to be far from full. */
static void
add_peak (struct sluice_mean_field *w, const struct mean_field_job *job, uint32_t i,
	  double load, double sign)
{
	struct mean_field_group *group = &w->groups[i];
	double server
	    = w->placement ? 0.0 : mean_field_load_at (w, MEAN_FIELD_SERVER, i, job);
	/* An empty group starts anew: no rounding is carried on for years. */
	group->target_peak = group->count ? group->target_peak : 0.0;
	group->server_peak = group->count ? group->server_peak : 0.0;
	group->target_peak += sign * load * job->peak;
	group->server_peak += sign * server * job->peak;
}

static void
add_to_metadata (struct sluice_mean_field *w, const struct mean_field_job *job, double sign)
{
	w->metadata_peak = w->burst_count ? w->metadata_peak : 0.0;
	w->metadata_peak += sign * job->load.metadata_seconds * job->peak;
	w->wide_count += sign > 0.0 ? mean_field_is_wide (job->mask) : 0;
	w->wide_count -= sign < 0.0 ? mean_field_is_wide (job->mask) : 0;
	mean_field_mark_dirty (w, job);
}

static void
enter_groups (struct sluice_mean_field *w, struct mean_field_job *job)
{
	const uint16_t *groups = mean_field_groups_of (w, job);
	for (uint32_t i = 0; i < job->group_count; i++) {
		struct mean_field_group *group = &w->groups[groups[i]];
		double load = mean_field_load_at (w, MEAN_FIELD_TARGET, groups[i], job);
		if (i >= job->target_count)
			load = job->load.server_seconds * w->link_seconds
			       * w->files[groups[i]] / job->target_count;
		add_peak (w, job, groups[i], load, 1.0);
		group->active[group->count++]
		    = (struct mean_field_visit){ load, (uint32_t)(job - w->jobs), 0 };
	}
	add_to_metadata (w, job, 1.0);
	w->burst_count++;
}

static void
leave_groups (struct sluice_mean_field *w, struct mean_field_job *job)
{
	uint32_t slot = (uint32_t)(job - w->jobs);
	const uint16_t *groups = mean_field_groups_of (w, job);
	for (uint32_t i = 0; i < job->group_count; i++) {
		struct mean_field_group *group = &w->groups[groups[i]];
		uint32_t k = 0;
		while (group->active[k].slot != slot)
			k++;
		double load = group->active[k].load;
		group->count--;
		memmove (group->active + k, group->active + k + 1,
			 (group->count - k) * sizeof *group->active);
		add_peak (w, job, groups[i], load, -1.0);
	}
	w->burst_count--;
	add_to_metadata (w, job, -1.0);
}

/* So many seconds alone of a burst on single targets have passed. */
static void
add_written (struct sluice_mean_field *w, const struct mean_field_job *job, double done)
{
	const uint16_t *groups = mean_field_groups_of (w, job);
	double bytes = done * job->alone * job->load.server_seconds
		       * w->config.server_bandwidth / fmax (job->target_count, 1.0);
	for (uint32_t i = 0; i < job->target_count && w->placement; i++) {
		w->groups[groups[i]].written += bytes;
		mean_field_show_filling (w, groups[i]);
	}
}

/* A burst writes files on this group; it is one of several streams, by itself a job whose
 * only burst takes so many seconds alone. */
static void
begin_stream (struct sluice_mean_field *w, struct mean_field_job *owner, uint32_t target,
	      double share, double alone, double seconds)
{
	uint32_t slot = w->free[--w->free_count];
	struct mean_field_job *job = &w->jobs[slot];
	*job = (struct mean_field_job){
		.load = owner->load,
		.tag = owner->tag,
		.order = w->orders++,
		.started = w->now,
		.since = w->now,
		.burst_began = w->now,
		.remaining = seconds,
		.burst = seconds,
		.alone = alone,
		.speed = 1.0,
		.targets = 1.0,
		.turn.allowed = 1.0,
		.mask = owner->mask,
		.phase = MEAN_FIELD_WRITING,
		.owner = (uint32_t)(owner - w->jobs),
		.first_stream = MEAN_FIELD_NO_SLOT,
		.next_stream = owner->first_stream,
		.heap_at = w->heap_count,
	};
	job->load.outstanding *= share;
	job->load.cap *= share;
	job->load.weight *= share;
	job->peak = fmin (job->load.cap, job->load.outstanding / job->load.cycle);
	w->promised--;
	owner->first_stream = slot;
	uint16_t *groups = mean_field_groups_of (w, job);
	groups[job->group_count++] = (uint16_t)target;
	job->target_count = 1;
	if (w->link_base < w->group_count)
		groups[job->group_count++]
		    = (uint16_t)(w->link_base + target % w->link_count);
	enter_groups (w, job);
	w->heap[w->heap_count++] = slot;
	schedule (w, job, w->now + seconds);
}

/* One stream for each of its targets, which has a part of its files: the one that takes
 * longest alone takes the burst's time. */
static void
begin_streams (struct sluice_mean_field *w, struct mean_field_job *job)
{
	const uint16_t *groups = mean_field_groups_of (w, job);
	double longest = 0.0, alone[SLUICE_MAX_TARGETS];
	double slower = mean_field_streams_alone (w, job, alone);
	for (uint32_t i = 0; i < job->target_count; i++)
		longest = fmax (longest, w->files[groups[i]] / alone[i]);
	for (uint32_t i = 0; i < job->target_count; i++) {
		double files = w->files[groups[i]];
		/* Its link is loaded by this stream only. */
		uint32_t link = w->link_base + groups[i] % w->link_count;
		uint16_t behind = w->files[link];
		w->files[link] = 1;
		begin_stream (w, job, groups[i], files / job->load.files, alone[i] / slower,
			      job->burst * files / alone[i] / longest);
		w->files[link] = behind;
	}
	job->group_count = 0;
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
	burst_control_ask (&w->control, w->now);
	if (w->placement)
		mean_field_place (w, job);
	if (job->load.files)
		begin_streams (w, job);
	else
		enter_groups (w, job);
	if (w->placement)
		mean_field_placed (w, job);
	schedule (w, job, job->load.files ? INFINITY : w->now + job->remaining);
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
release (struct sluice_mean_field *w, struct mean_field_job *job)
{
	uint32_t slot = (uint32_t)(job - w->jobs);
	remove_from_heap (w, slot);
	job->phase = MEAN_FIELD_FREE;
	w->free[w->free_count++] = slot;
}

/* The burst of its job ends with the last stream. */
static void
end_stream (struct sluice_mean_field *w, struct mean_field_job *stream)
{
	struct mean_field_job *owner = &w->jobs[stream->owner];
	uint32_t *link = &owner->first_stream, slot = (uint32_t)(stream - w->jobs);
	while (*link != slot)
		link = &w->jobs[*link].next_stream;
	*link = stream->next_stream;
	add_written (w, stream, stream->burst - mean_field_remaining (w, stream));
	leave_groups (w, stream);
	release (w, stream);
	w->promised++;
	if (owner->first_stream == MEAN_FIELD_NO_SLOT)
		schedule (w, owner, w->now);
}

static void
account_burst (struct sluice_mean_field *w, struct mean_field_job *job, double done)
{
	job->io += w->now - job->burst_began;
	job->io_alone += done;
	while (job->first_stream != MEAN_FIELD_NO_SLOT)
		end_stream (w, &w->jobs[job->first_stream]);
	if (!job->load.files) {
		add_written (w, job, done);
		leave_groups (w, job);
	}
	burst_end (&w->control, &job->turn, w->now);
	burst_control_ask (&w->control, w->now);
}

double
mean_field_remaining (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	double longest = 0.0;
	for (uint32_t slot = job->first_stream; slot != MEAN_FIELD_NO_SLOT;
	     slot = w->jobs[slot].next_stream)
		longest = fmax (longest, mean_field_remaining (w, &w->jobs[slot]));
	if (job->load.files && job->owner == MEAN_FIELD_NO_SLOT)
		return longest;
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
	if (job->owner != MEAN_FIELD_NO_SLOT) {
		end_stream (w, job);
		return 0;
	}
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
			 struct sluice_block block, uint64_t tag)
{
	uint32_t streams = mean_field_most_streams (w, load);
	while (w->free_count < w->promised + streams + 1)
		if (grow (w) < 0)
			return -1;
	w->promised += streams;
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
		.block = (uint32_t)block.first + block.count <= w->link_base
			     ? block
			     : (struct sluice_block){ 0, 0 },
		.owner = MEAN_FIELD_NO_SLOT,
		.first_stream = MEAN_FIELD_NO_SLOT,
		.most_streams = streams,
		.heap_at = w->heap_count,
	};
	job->load.files = streams ? load->files : 0;
	if (!w->placement)
		mean_field_place_on_lanes (w, job);
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

static void
end_job (struct sluice_mean_field *w, struct mean_field_job *job)
{
	w->promised -= job->most_streams;
	release (w, job);
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
	end_job (w, job);
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
		end_job (w, job);
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

double
sluice_mean_field_filled (const struct sluice_mean_field *w, uint32_t target)
{
	return w->placement && target < w->link_base
		   ? w->placement->filled[SLUICE_MAX_TARGETS + target]
		   : -1.0;
}

const double *
sluice_mean_field_written (const struct sluice_mean_field *w, uint32_t target)
{
	return w->placement && target < w->link_base ? &w->groups[target].written : NULL;
}
