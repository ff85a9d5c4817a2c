/*
 * The stations of the discrete-event storage model. Links, server work and memory are
 * first come, first served with known service times, so each is one clock: until
 * when it is busy. Targets choose what they serve next, so they have queues.
 */
#include <math.h>
#include <stdlib.h>

#include "discrete_event_state.h"

/* The calendar of the discrete-event storage model: a heap by time, then by number. */

static int
is_earlier (const struct event *a, const struct event *b)
{
	return a->time < b->time || (!(b->time < a->time) && a->number < b->number);
}

static int
make_room (struct simulation *s)
{
	if (s->event_count < s->event_room)
		return 0;
	uint32_t room = s->event_room ? 2 * s->event_room : 4096;
	struct event *events = realloc (s->events, room * sizeof *events);
	if (!events) {
		s->out_of_memory = 1;
		return -1;
	}
	s->events = events;
	s->event_room = room;
	return 0;
}

void
rq_schedule (struct simulation *s, double time, enum event_kind kind, uint32_t index)
{
	if (make_room (s) < 0)
		return;
	struct event event = { time, s->event_number++, kind, index };
	uint32_t at = s->event_count++;
	for (; at && is_earlier (&event, &s->events[(at - 1) / 2]); at = (at - 1) / 2)
		s->events[at] = s->events[(at - 1) / 2];
	s->events[at] = event;
}

int
rq_next_event (struct simulation *s, struct event *out)
{
	if (!s->event_count)
		return 0;
	*out = s->events[0];
	struct event last = s->events[--s->event_count];
	uint32_t at = 0;
	for (uint32_t child; (child = 2 * at + 1) < s->event_count; at = child) {
		if (child + 1 < s->event_count
		    && is_earlier (&s->events[child + 1], &s->events[child]))
			child++;
		if (!is_earlier (&s->events[child], &last))
			break;
		s->events[at] = s->events[child];
	}
	s->events[at] = last;
	return 1;
}

/* Pass a station that serves in order of arrival. Returns when. */
static double
pass (double *clock, double now, double seconds)
{
	*clock = fmax (*clock, now) + seconds;
	return *clock;
}

uint32_t
rq_new_unit (struct simulation *s, uint32_t flow, double bytes, enum unit_kind kind)
{
	if (s->free_unit == NOTHING) {
		uint32_t room = s->unit_room ? 2 * s->unit_room : 4096;
		struct unit *units = realloc (s->units, room * sizeof *units);
		if (!units) {
			s->out_of_memory = 1;
			return NOTHING;
		}
		for (uint32_t i = s->unit_room; i < room; i++)
			units[i].next = i + 1 < room ? i + 1 : NOTHING;
		s->free_unit = s->unit_room;
		s->units = units;
		s->unit_room = room;
	}
	uint32_t unit = s->free_unit;
	s->free_unit = s->units[unit].next;
	s->units[unit] = (struct unit){
		.bytes = bytes,
		.ticket = s->flows[flow].ticket,
		.flow = flow,
		.kind = kind,
		.next = NOTHING,
	};
	return unit;
}

static void
free_unit (struct simulation *s, uint32_t unit)
{
	s->units[unit].next = s->free_unit;
	s->free_unit = unit;
}

static const struct flow *
flow_of (const struct simulation *s, uint32_t unit)
{
	return &s->flows[s->units[unit].flow];
}

void
rq_send_unit (struct simulation *s, uint32_t unit)
{
	struct process *process = &s->processes[flow_of (s, unit)->process];
	const struct sluice_program *program = s->programs[process->program].is;
	double bytes = s->units[unit].bytes;
	double calls = fmax (1.0, bytes / program->operation_bytes);
	double rate
	    = fmin (s->storage->process_bandwidth, program->rate / program->processes);
	double seconds = bytes / rate + calls * s->storage->call_seconds;
	if (seconds > 0.0)
		rq_schedule (s, pass (&process->clock, s->now, seconds), EVENT_PRODUCED,
			     unit);
	else
		rq_unit_produced (s, unit);
}

void
rq_unit_produced (struct simulation *s, uint32_t unit)
{
	const struct process *process = &s->processes[flow_of (s, unit)->process];
	double seconds = s->units[unit].bytes / s->storage->node_bandwidth;
	rq_schedule (s, pass (&s->node_clocks[process->node], s->now, seconds), EVENT_SENT,
		     unit);
}

void
rq_unit_sent (struct simulation *s, uint32_t unit)
{
	struct server *server = server_of (s, flow_of (s, unit)->target);
	double seconds = s->units[unit].bytes / s->storage->server_bandwidth;
	double through = pass (&server->link_clock, s->now, seconds);
	s->busy[SLUICE_STATION_LINKS] += seconds;
	if (flow_of (s, unit)->is_new && s->storage->flow_seconds > 0.0) {
		s->flows[s->units[unit].flow].is_new = 0;
		through = pass (&server->work_clock, through, s->storage->flow_seconds);
	}
	rq_schedule (s, through, EVENT_RECEIVED, unit);
}

static struct stream *
stream_at (struct simulation *s, uint32_t target, uint32_t stream)
{
	return &s->streams[(size_t)target * s->stream_count + stream];
}

static void
append_ready (struct simulation *s, uint32_t target, uint32_t stream)
{
	struct target *t = &s->targets[target];
	stream_at (s, target, stream)->is_ready = 1;
	stream_at (s, target, stream)->next_ready = NOTHING;
	if (t->first == NOTHING)
		t->first = stream;
	else
		stream_at (s, target, t->last)->next_ready = stream;
	t->last = stream;
}

static uint32_t
take_ready (struct simulation *s, uint32_t target)
{
	struct target *t = &s->targets[target];
	uint32_t stream = t->first;
	t->first = stream_at (s, target, stream)->next_ready;
	stream_at (s, target, stream)->is_ready = 0;
	return stream;
}

/* Where targets share equally: the ready stream that has had least of its share. */
static uint32_t
take_least_served (struct simulation *s, uint32_t target)
{
	struct target *t = &s->targets[target];
	uint32_t least = t->first, before_least = NOTHING;
	for (uint32_t i = t->first, before = NOTHING; i != NOTHING;
	     before = i, i = stream_at (s, target, i)->next_ready)
		if (stream_at (s, target, i)->passed
		    < stream_at (s, target, least)->passed) {
			least = i;
			before_least = before;
		}
	if (before_least == NOTHING)
		return take_ready (s, target);
	stream_at (s, target, before_least)->next_ready
	    = stream_at (s, target, least)->next_ready;
	t->last = t->last == least ? before_least : t->last;
	stream_at (s, target, least)->is_ready = 0;
	return least;
}

/* The stream that a target serves next, its seek paid; NOTHING when it is idle. */
static uint32_t
choose_stream (struct simulation *s, uint32_t target, double *seconds)
{
	struct target *t = &s->targets[target];
	int stays = stream_at (s, target, t->stream)->head != NOTHING;
	int shares = s->storage->shares > 0.0;
	if (stays && t->slice_left > 0.0 && !shares)
		return t->stream;
	if (stays)
		append_ready (s, target, t->stream);
	if (t->first == NOTHING)
		return NOTHING;
	uint32_t stream = shares ? take_least_served (s, target) : take_ready (s, target);
	if (stream && stream != t->position) { /* a commit pays for its own moves */
		*seconds += s->storage->seek_seconds;
		t->position = stream;
	}
	t->stream = stream;
	t->slice_left = s->storage->seek_seconds > 0.0 ? s->storage->slice_bytes : INFINITY;
	return stream;
}

/* Where on the device a unit lies: without a seek time it does not matter. Where targets
 * share equally: its program. */
static uint32_t
stream_of (const struct simulation *s, uint32_t unit)
{
	if (s->storage->shares > 0.0)
		return s->processes[flow_of (s, unit)->process].program;
	if (!(s->storage->seek_seconds > 0.0) || s->units[unit].kind == UNIT_COMMIT)
		return 0;
	uint32_t process = flow_of (s, unit)->process;
	const struct program *program = &s->programs[s->processes[process].program];
	return program->first_stream
	       + (program->is->interleaved ? 0 : s->processes[process].rank);
}

static void
serve_next (struct simulation *s, uint32_t target)
{
	struct target *t = &s->targets[target];
	double seconds = 0.0;
	uint32_t number = choose_stream (s, target, &seconds);
	if (number == NOTHING)
		return;
	struct stream *stream = stream_at (s, target, number);
	uint32_t unit = stream->head;
	stream->head = s->units[unit].next;
	t->present = unit;
	t->slice_left -= s->units[unit].bytes;
	if (s->storage->ordered > 0.0 && s->units[unit].kind != UNIT_COMMIT
	    && t->position != stream_of (s, unit)) {
		t->position = stream_of (s, unit);
		seconds += s->storage->seek_seconds;
	}
	if (s->units[unit].kind == UNIT_COMMIT) {
		if (t->joinable == unit)
			t->joinable = NOTHING; /* a later one waits for the next one */
		seconds += s->storage->commit_seconds;
	} else {
		seconds += s->units[unit].bytes / s->storage->target_bandwidth;
	}
	s->busy[SLUICE_STATION_BYTES] += seconds;
	t->passed = stream->passed;
	stream->passed += seconds;
	rq_schedule (s, s->now + seconds, EVENT_SERVED, target);
}

/* Behind which unit of a queue one is put: the last, or where targets keep order that
 * of the operation that began last before its own. NOTHING: it is the first. */
static uint32_t
place_in (const struct simulation *s, const struct stream *stream, uint32_t unit)
{
	uint64_t ticket = s->units[unit].ticket;
	if (stream->head == NOTHING)
		return NOTHING;
	if (!(s->storage->ordered > 0.0) || s->units[stream->tail].ticket <= ticket)
		return stream->tail;
	uint32_t before = NOTHING;
	for (uint32_t i = stream->head; s->units[i].ticket <= ticket; i = s->units[i].next)
		before = i;
	return before;
}

static void
queue_unit (struct simulation *s, uint32_t target, uint32_t unit)
{
	struct target *t = &s->targets[target];
	uint32_t number = s->storage->ordered > 0.0 ? 0 : stream_of (s, unit);
	struct stream *stream = stream_at (s, target, number);
	uint32_t before = place_in (s, stream, unit);
	uint32_t *link = before == NOTHING ? &stream->head : &s->units[before].next;
	s->units[unit].next = *link;
	*link = unit;
	if (s->units[unit].next == NOTHING)
		stream->tail = unit;
	if (unit == stream->head && (t->present == NOTHING || t->stream != number))
		stream->passed = fmax (stream->passed, t->passed); /* it was idle */
	if (!stream->is_ready && t->stream != number)
		append_ready (s, target, number);
	if (t->present == NOTHING)
		serve_next (s, target);
}

static void
append_unit (struct simulation *s, struct line *line, uint32_t unit)
{
	s->units[unit].next = NOTHING;
	if (line->first == NOTHING)
		line->first = unit;
	else
		s->units[line->last].next = unit;
	line->last = unit;
}

static int
fits_cache (const struct simulation *s, const struct server *server, uint32_t unit)
{
	double slack = 0.5; /* B: a sum of doubles need not come back to 0 */
	return server->dirty + s->units[unit].bytes <= s->storage->cache_bytes + slack;
}

static void
write_to_cache (struct simulation *s, struct server *server, uint32_t unit)
{
	double bytes = s->units[unit].bytes;
	server->dirty += bytes;
	double seconds = bytes / s->storage->cache_bandwidth;
	rq_schedule (s, pass (&server->memory_clock, s->now, seconds), EVENT_CACHED, unit);
}

/* What a full cache cannot take goes through to the target; where a window drains it
 * in order, everything waits for room, whatever its target. */
void
rq_unit_received (struct simulation *s, uint32_t unit)
{
	uint32_t target = flow_of (s, unit)->target;
	struct server *server = server_of (s, target);
	uint32_t sync = program_of (s, flow_of (s, unit)->process)->is->sync;
	int is_ordered = s->storage->drain_window > 0.0
			 && s->units[unit].bytes <= s->storage->cache_bytes;
	int fits = fits_cache (s, server, unit);
	if (sync == SLUICE_SYNC_FLUSH || (!fits && !is_ordered))
		queue_unit (s, target, unit);
	else if (is_ordered && (!fits || server->arrived.first != NOTHING))
		append_unit (s, &server->arrived, unit);
	else
		write_to_cache (s, server, unit);
}

/* Let a cache send what its window allows. */
static void
drain_cache (struct simulation *s, struct server *server)
{
	double window = s->storage->drain_window;
	while (server->cached.first != NOTHING
	       && (!(window > 0.0) || server->draining < window)) {
		uint32_t unit = server->cached.first;
		server->cached.first = s->units[unit].next;
		server->draining++;
		queue_unit (s, s->units[unit].target, unit);
	}
}

void
rq_unit_cached (struct simulation *s, uint32_t unit)
{
	uint32_t flow = s->units[unit].flow;
	double bytes = s->units[unit].bytes;
	struct server *server = server_of (s, s->flows[flow].target);
	s->units[unit].kind = UNIT_WRITE_BACK;
	s->units[unit].target = s->flows[flow].target;
	append_unit (s, &server->cached, unit);
	drain_cache (s, server);
	rq_unit_acknowledged (s, flow, bytes);
}

void
rq_queue_commit (struct simulation *s, uint32_t flow)
{
	uint32_t target = s->flows[flow].target;
	struct target *t = &s->targets[target];
	if (t->joinable != NOTHING && t->joined < s->storage->commit_group) {
		struct unit *commit = &s->units[t->joinable];
		s->flows[flow].next_commit = commit->flow;
		commit->flow = flow;
		t->joined++;
		return;
	}
	s->flows[flow].next_commit = NOTHING;
	uint32_t unit = rq_new_unit (s, flow, 0.0, UNIT_COMMIT);
	if (unit == NOTHING)
		return;
	t->joinable = unit;
	t->joined = 1;
	queue_unit (s, target, unit);
}

static void
written_back (struct simulation *s, struct server *server, double bytes)
{
	server->dirty -= bytes;
	server->draining--;
	drain_cache (s, server);
	while (server->arrived.first != NOTHING
	       && fits_cache (s, server, server->arrived.first)) {
		uint32_t unit = server->arrived.first;
		server->arrived.first = s->units[unit].next;
		write_to_cache (s, server, unit);
	}
}

static void
end_flows (struct simulation *s, uint32_t flow)
{
	for (uint32_t next; flow != NOTHING; flow = next) {
		next = s->flows[flow].next_commit;
		rq_flow_done (s, flow);
	}
}

void
rq_target_served (struct simulation *s, uint32_t target)
{
	struct target *t = &s->targets[target];
	uint32_t unit = t->present;
	struct unit was = s->units[unit];
	t->present = NOTHING;
	free_unit (s, unit);
	serve_next (s, target);
	if (was.kind == UNIT_WRITE)
		rq_unit_acknowledged (s, was.flow, was.bytes);
	else if (was.kind == UNIT_WRITE_BACK)
		written_back (s, server_of (s, target), was.bytes);
	if (was.kind == UNIT_COMMIT)
		end_flows (s, was.flow);
}
