/*
 * The life of an operation in the discrete-event storage model: set-up, creates, flows to
 * ceil (bytes / stripe) targets, and the end with the slowest of them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discrete_event_state.h"

/* Bytes that one operation of the simulation moves: what is written behind is one
 * long operation for a whole burst, because nothing waits in between. */
static double
operation_bytes (const struct sluice_program *program, double operations)
{
	return program->sync == SLUICE_SYNC_BEHIND ? program->operation_bytes * operations
						   : program->operation_bytes;
}

/* Writes of a process in its burst, which differs from other bursts. */
static uint32_t
operations_of (const struct simulation *s, const struct program *program,
	       uint32_t bursts_left)
{
	double factor = program->usual
			* burst_factor (s->storage->seed, (uint64_t)(program - s->programs),
					bursts_left, s->storage->burst_spread);
	return (uint32_t)fmax (1.0, floor (program->is->operations * factor + 0.5));
}

/* Uniform in [0, 1), the same for the same bytes and seed. */
static double
drawn (const struct simulation *s, const void *bytes, size_t size)
{
	return (double)(sluice_hash_bytes (bytes, size, s->storage->seed) >> 11) * 0x1p-53;
}

uint32_t
rq_flow_count (const struct program *program, double operations)
{
	double bytes = operation_bytes (program->is, operations);
	double stripe = program->is->stripe_bytes;
	double full = floor (bytes / stripe);
	double stripes = full + (bytes > full * stripe);
	return (uint32_t)fmin (stripes,
			       fmin (program->is->stripe_targets, program->target_count));
}

/* Incast needs senders that together outrun a server's port, in front of a device
 * that is slower than the port, so that what has arrived stays there. */
uint32_t
rq_can_collapse (const struct simulation *s, const struct program *program)
{
	const struct sluice_storage *is = s->storage;
	double sources = program->is->nodes * is->node_bandwidth / is->servers;
	double devices = is->target_bandwidth * is->targets / is->servers;
	int is_cached = program->is->sync != SLUICE_SYNC_FLUSH && is->cache_bytes > 0.0;
	return is->flow_limit > 0.0 && sources > is->server_bandwidth
	       && devices < is->server_bandwidth && !is_cached;
}

/* Send what the windows of a flow and of its process allow. */
static int
send_from (struct simulation *s, uint32_t number)
{
	struct flow *flow = &s->flows[number];
	struct process *process = &s->processes[flow->process];
	if (!(flow->unsent > 0.0) || flow->in_flight >= flow->window)
		return 0;
	double bytes = fmin (flow->unsent, s->storage->unit_bytes);
	if (program_of (s, flow->process)->is->sync == SLUICE_SYNC_BEHIND
	    && !process->is_draining && !rq_may_write (s, flow->process, bytes))
		return 0;
	uint32_t unit = rq_new_unit (s, number, bytes, UNIT_WRITE);
	if (unit == NOTHING)
		return 0;
	flow->unsent -= bytes;
	flow->in_flight++;
	process->in_flight++;
	rq_send_unit (s, unit);
	return 1;
}

static uint32_t
flow_at (const struct simulation *s, uint32_t process, uint32_t i)
{
	return process * s->flows_each + i;
}

/* One unit of each flow in turn, until none may send: so a file goes out in the
 * order of its stripes. */
static void
send_all (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	double window = s->storage->process_window;
	for (uint32_t blocked = 0; blocked < process->flow_count;) {
		if (window > 0.0 && process->in_flight >= window)
			return;
		int sent = send_from (s, flow_at (s, number, process->turn));
		process->turn = (process->turn + 1) % process->flow_count;
		blocked = sent ? 0 : blocked + 1;
	}
}

static void
establish (struct simulation *s, uint32_t number)
{
	struct flow *flow = &s->flows[number];
	struct server *server = server_of (s, flow->target);
	struct program *program = program_of (s, flow->process);
	if (program->collapses && server->established >= s->storage->flow_limit) {
		program->outcome->collapses++;
		rq_schedule (s, s->now + s->storage->retry_seconds, EVENT_CONNECT, number);
		return;
	}
	server->established++;
	double window
	    = program->is->rewrites ? s->storage->rewrite_window : s->storage->flow_window;
	flow->window = (uint32_t)window;
}

static void
try_again (struct simulation *s, uint32_t flow)
{
	establish (s, flow);
	send_all (s, s->flows[flow].process);
	if (s->flows[flow].window && s->processes[s->flows[flow].process].is_stopped)
		rq_flow_done (s, flow);
}

/* Each connection stalls for a time of its own, so an operation meets the longest. */
static void
connect_flow (struct simulation *s, uint32_t number)
{
	double longest = s->storage->stall_seconds;
	uint64_t which[2] = { s->flows[number].ticket, s->flows[number].target };
	if (longest > 0.0)
		rq_schedule (s, s->now + longest * drawn (s, which, sizeof which),
			     EVENT_CONNECT, number);
	else
		establish (s, number);
}

/* The target, of the program's, on which an operation begins: its file's first, and
 * on by the stripes before it; in a shared file those of all ranks before it. */
static uint32_t
first_target (const struct program *program, const struct process *process)
{
	const struct sluice_program *is = program->is;
	double before = process->operation - (process->is_draining ? process->staged : 0);
	uint32_t first = process->file_target;
	if (is->dispatch != SLUICE_DISPATCH_FREE)
		return process->on;
	if (is->interleaved) {
		before = process->operation * is->processes + process->rank;
		first = 0;
	}
	double stripes
	    = before * operation_bytes (is, process->operations) / is->stripe_bytes;
	return first + (uint32_t)fmod (floor (stripes), is->stripe_targets);
}

/* What an operation writes to the i-th of count targets: whole stripes in turn, the last
 * of them perhaps in part. */
static double
flow_bytes (const struct sluice_program *program, double operations, uint32_t i,
	    uint32_t count)
{
	double bytes = operation_bytes (program, operations),
	       stripe = program->stripe_bytes;
	double full = floor (bytes / stripe);
	double turns = floor (full / count), last = full - turns * count;
	double whole = (turns + (i < last)) * stripe;
	return i == (uint32_t)last ? whole + (bytes - full * stripe) : whole;
}

static void
open_flows (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	struct program *program = program_of (s, number);
	struct span span = rq_targets_of (s, program);
	uint32_t count = rq_flow_count (program, process->operations);
	count = count < span.count ? count : span.count;
	count = count < program->flow_count ? count : program->flow_count;
	uint32_t first = first_target (program, process);
	process->flow_count = count;
	s->tickets++;
	process->flows_open = count;
	process->turn = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct flow *flow = &s->flows[flow_at (s, number, i)];
		uint32_t target = span.first + (first + i) % span.count;
		*flow = (struct flow){
			.unsent = flow_bytes (program->is, process->operations, i, count),
			.ticket = s->tickets,
			.process = number,
			.target = program->targets[target],
			.is_new = 1,
			.next_commit = NOTHING,
		};
		connect_flow (s, flow_at (s, number, i));
	}
	send_all (s, number);
}

/* Round robin over the targets, as allocators of parallel file systems go: a file's
 * stripes follow those of the file before it, unless each file is on all targets. */
static void
open_file (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	struct program *program = program_of (s, number);
	double stripes = program->is->stripe_targets;
	process->file_target = s->files % program->target_count;
	s->files += stripes < program->target_count ? (uint32_t)stripes : 1;
}

void
rq_begin_operation (struct simulation *s, uint32_t number)
{
	const struct sluice_program *is = program_of (s, number)->is;
	if (is->sync != SLUICE_SYNC_BEHIND
	    && !rq_may_write (s, number, is->operation_bytes))
		return;
	if (rq_stage (s, number))
		return;
	if (program_of (s, number)->is->dispatch == SLUICE_DISPATCH_FREE)
		rq_schedule (s, s->now + s->storage->setup_seconds, EVENT_OPERATION,
			     number);
	else
		rq_take_turn (s, number);
}

/* Write on, once a process need not wait for its program's turn any more. */
void
rq_resume (struct simulation *s, uint32_t number)
{
	if (s->processes[number].flows_open)
		send_all (s, number);
	else
		rq_begin_operation (s, number);
}

/* On to the metadata server, if it creates a file. */
static void
operate (struct simulation *s, uint32_t number)
{
	const struct sluice_program *program = program_of (s, number)->is;
	double slower = 1.0 + s->storage->create_contention * s->creating;
	double seconds = program->creates * s->storage->create_seconds * slower;
	if (program->creates)
		open_file (s, number);
	if (!(seconds > 0.0)) {
		open_flows (s, number);
		return;
	}
	s->creating++;
	s->busy[SLUICE_STATION_METADATA] += seconds;
	s->metadata_clock = fmax (s->metadata_clock, s->now) + seconds;
	rq_schedule (s, s->metadata_clock + program->creates * s->storage->create_delay,
		     EVENT_OPEN, number);
}

static void
begin_burst (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	const struct program *program = program_of (s, number);
	if (process->is_stopped || process->burst_at < s->now || process->burst_at > s->now)
		return; /* of a run that was stopped */
	if (process->is_draining) {
		process->is_burst_due = 1;
		return;
	}
	process->burst_at = INFINITY;
	if (!process->operation && !program->is->creates)
		open_file (s, number);
	process->operations = operations_of (s, program, process->bursts_left);
	process->bursts_left--;
	process->operations_left
	    = program->is->sync == SLUICE_SYNC_BEHIND ? 1 : process->operations;
	process->burst_began = s->now;
	rq_burst_begins (s, number);
	rq_begin_operation (s, number);
}

void
rq_schedule_burst (struct simulation *s, uint32_t number, double at)
{
	s->processes[number].burst_at = at;
	rq_schedule (s, at, EVENT_BURST, number);
}

void
rq_start_program (struct simulation *s, struct program *program, double at)
{
	const struct sluice_program *is = program->is;
	program->writing = (uint32_t)is->processes;
	program->step_left = program->writing;
	program->outcome->first_start = at;
	program->outcome->io = program->outcome->io_alone = program->outcome->held = 0.0;
	program->burst.held_in_all = program->burst.saving_in_all = 0.0;
	if (!is->bursts) {
		program->ends_at = at + is->compute;
		rq_schedule (s, program->ends_at, EVENT_ENDED, program_number (s, program));
	}
	for (uint32_t rank = 0; rank < program->writing && is->bursts; rank++) {
		uint64_t number = program->first_process + rank;
		struct process *process = &s->processes[number];
		double late
		    = s->storage->jitter_seconds * drawn (s, &number, sizeof number);
		process->bursts_left = (uint32_t)is->bursts;
		rq_schedule_burst (s, (uint32_t)number,
				   at + late + (is->overlaps ? 0.0 : is->compute));
	}
}

/* Let a process write nothing more. What is under way comes to its end. */
static void
stop_process (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	process->burst_at = INFINITY;
	if (!process->operations_left || process->is_stopped)
		return;
	process->operations_left = 0;
	process->is_stopped = process->flows_open || !process->is_held;
	for (uint32_t i = 0, open = process->flows_open; open && i < process->flow_count;
	     i++) {
		struct flow *flow = &s->flows[flow_at (s, number, i)];
		int is_idle = flow->unsent > 0.0 && !flow->in_flight && flow->window;
		flow->unsent = 0.0;
		if (is_idle)
			rq_flow_done (s, flow_at (s, number, i));
	}
}

void
rq_stop_program (struct simulation *s, struct program *program)
{
	for (uint32_t i = 0; i < (uint32_t)program->is->processes; i++)
		stop_process (s, program->first_process + i);
	if (program->is->yields == SLUICE_YIELD_NEVER && !program->is->noise)
		s->holders -= program->bursting;
	program->bursting = 0;
	program->ends_at = INFINITY;
	rq_forget_turn (s, program);
}

/* Whether a process was stopped, and has now ended what it was at. */
static int
has_stopped (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	if (!process->is_stopped)
		return 0;
	process->is_stopped = 0;
	if (process->burst_at <= s->now) /* its program has begun anew */
		rq_schedule_burst (s, number, s->now);
	return 1;
}

static void
end_program (struct simulation *s, struct program *program)
{
	program->outcome->end = s->now;
	s->ended = program_number (s, program);
	s->running -= !program->is->noise;
	rq_stop_if_over (s);
}

static void
end_computing (struct simulation *s, struct program *program)
{
	if (program->ends_at >= s->now && program->ends_at <= s->now)
		end_program (s, program);
}

/* A process has ended its last burst. */
static void
end_process (struct simulation *s, struct program *program)
{
	if (!--program->writing)
		end_program (s, program);
}

void
rq_stop_if_over (struct simulation *s)
{
	s->stopped |= !s->running && !s->staged;
}

/* All of a program's processes have ended a burst: on to the next one, or to the end. */
static void
end_step (struct simulation *s, struct program *program)
{
	const struct sluice_program *is = program->is;
	uint32_t bursts_left = s->processes[program->first_process].bursts_left;
	double over = is->overlaps ? fmax (s->now, program->burst_began + is->compute)
				   : s->now + (bursts_left ? is->compute : 0.0);
	program->step_left = (uint32_t)is->processes;
	for (uint32_t rank = 0; rank < program->step_left && bursts_left; rank++)
		rq_schedule_burst (s, program->first_process + rank, over);
	if (bursts_left)
		return;
	program->ends_at = over;
	rq_schedule (s, over, EVENT_ENDED, program_number (s, program));
}

static void
end_burst (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	struct program *program = program_of (s, number);
	program->step_left--;
	rq_burst_ends (s, number);
	if (program->is->in_step) {
		if (!program->step_left)
			end_step (s, program);
	} else if (process->bursts_left) {
		double next = process->burst_began + program->is->period;
		rq_schedule_burst (s, number, fmax (s->now, next));
	} else {
		end_process (s, program);
	}
}

static void
end_operation (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	struct program *program = program_of (s, number);
	if (has_stopped (s, number))
		return;
	if (process->is_draining) {
		rq_drained (s, number);
		return;
	}
	process->operation++;
	process->operations_left--;
	if (program->is->dispatch != SLUICE_DISPATCH_FREE)
		rq_give_turn (s, number);
	if (process->operations_left)
		rq_begin_operation (s, number);
	else
		end_burst (s, number);
}

void
rq_flow_done (struct simulation *s, uint32_t number)
{
	struct flow *flow = &s->flows[number];
	server_of (s, flow->target)->established--;
	if (!--s->processes[flow->process].flows_open)
		end_operation (s, flow->process);
}

/* Shah's method: both are counted until the first has written most of it. */
static void
note_share (struct simulation *s, struct program *program)
{
	struct sluice_program_outcome *outcome = program->outcome;
	if (program->is->noise || isfinite (outcome->share_time)
	    || outcome->bytes < s->stop_share * program->total)
		return;
	outcome->share_time = s->now;
	s->stopped = 1;
}

void
rq_unit_acknowledged (struct simulation *s, uint32_t number, double bytes)
{
	struct flow *flow = &s->flows[number];
	struct process *process = &s->processes[flow->process];
	struct program *program = program_of (s, flow->process);
	if (!process->is_draining) { /* the buffer has acknowledged what drains */
		program->outcome->bytes += bytes;
		program->burst_bytes += bytes;
	}
	program->target_bytes[flow->target] += bytes;
	if (s->stop_share > 0.0)
		note_share (s, program);
	flow->in_flight--;
	process->in_flight--;
	if (s->storage->process_window > 0.0)
		send_all (s, flow->process);
	else
		send_from (s, number);
	int is_complete = !(flow->unsent > 0.0) && !flow->in_flight;
	int commits
	    = program->is->sync == SLUICE_SYNC_FLUSH && s->storage->commit_seconds > 0.0;
	if (is_complete && commits)
		rq_queue_commit (s, number);
	else if (is_complete)
		rq_flow_done (s, number);
}

static void
handle (struct simulation *s, const struct event *event)
{
	switch ((enum event_kind)event->kind) {
	case EVENT_BURST:
		begin_burst (s, event->index);
		break;
	case EVENT_OPERATION:
		if (!has_stopped (s, event->index))
			operate (s, event->index);
		break;
	case EVENT_OPEN:
		s->creating--;
		if (!has_stopped (s, event->index))
			open_flows (s, event->index);
		break;
	case EVENT_CONNECT:
		try_again (s, event->index);
		break;
	case EVENT_PRODUCED:
		rq_unit_produced (s, event->index);
		break;
	case EVENT_SENT:
		rq_unit_sent (s, event->index);
		break;
	case EVENT_RECEIVED:
		rq_unit_received (s, event->index);
		break;
	case EVENT_CACHED:
		rq_unit_cached (s, event->index);
		break;
	case EVENT_STAGED:
		program_of (s, event->index)->outcome->bytes
		    += program_of (s, event->index)->is->operation_bytes;
		program_of (s, event->index)->burst_bytes
		    += program_of (s, event->index)->is->operation_bytes;
		end_operation (s, event->index);
		break;
	case EVENT_WAKE:
		rq_wake (s, event->index);
		break;
	case EVENT_CONTROL:
		rq_control (s);
		break;
	case EVENT_ENDED:
		end_computing (s, &s->programs[event->index]);
		break;
	case EVENT_SERVED:
		rq_target_served (s, event->index);
		break;
	}
}

int
rq_step (struct simulation *s, double until)
{
	struct event event;
	if (s->out_of_memory || !s->event_count || s->events[0].time > until
	    || !rq_next_event (s, &event))
		return 0;
	s->now = event.time;
	handle (s, &event);
	return 1;
}

int64_t
rq_run_to_end (struct simulation *s)
{
	int64_t count = 0;
	while (!s->stopped && rq_step (s, INFINITY))
		count++;
	return s->out_of_memory ? -1 : count;
}
