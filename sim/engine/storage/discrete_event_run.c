/*
 * The numbers of the discrete-event storage model, and a simulation from set-up to end.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discrete_event_state.h"

#define FIELD(name, value, low, high, unit, text) { #name, unit, text, value, low, high },

static const struct sluice_field storage_fields[] = { SLUICE_STORAGE_FIELDS (FIELD) };
static const struct sluice_field program_fields[] = { SLUICE_PROGRAM_FIELDS (FIELD) };

enum {
	STORAGE_FIELDS = sizeof storage_fields / sizeof storage_fields[0],
	PROGRAM_FIELDS = sizeof program_fields / sizeof program_fields[0],
	MOST_FLOWS = 1U << 26,	  /* flows, and streams of all targets: half a GiB */
	ENOUGH_OPERATIONS = 1000, /* to measure the rate of a process */
};

const struct sluice_field *
sluice_storage_field (unsigned int i)
{
	return i < STORAGE_FIELDS ? &storage_fields[i] : NULL;
}

const struct sluice_field *
sluice_program_field (unsigned int i)
{
	return i < PROGRAM_FIELDS ? &program_fields[i] : NULL;
}

void
sluice_storage_init (struct sluice_storage *storage)
{
	memset (storage, 0, sizeof *storage);
#define SET(name, value, low, high, unit, text) storage->name = value;
	SLUICE_STORAGE_FIELDS (SET)
	sluice_turns_config_init (&storage->turns);
}

void
sluice_program_init (struct sluice_program *program)
{
	memset (program, 0, sizeof *program);
#define SET_PROGRAM(name, value, low, high, unit, text) program->name = value;
	SLUICE_PROGRAM_FIELDS (SET_PROGRAM)
	program->sync = SLUICE_SYNC_ACK;
}

static int
check_field (const char *of, const char *name, double value, double low, double high,
	     struct sluice_error *err)
{
	if (value >= low && value <= high)
		return 0;
	return sluice_fail (err, "%s %s is %g; give %g to %g", of, name, value, low, high);
}

static int
check_storage (const struct sluice_storage *storage, struct sluice_error *err)
{
#define CHECK(name, value, low, high, unit, text)                                          \
	if (check_field ("storage", #name, storage->name, low, high, err) < 0)             \
		return -1;
	SLUICE_STORAGE_FIELDS (CHECK)
#undef CHECK
	if (storage->targets < storage->servers)
		return sluice_fail (err, "%g targets on %g servers; give each server one",
				    storage->targets, storage->servers);
	if (storage->targets < storage->lanes)
		return sluice_fail (err, "%g targets in %g lanes; give each lane one",
				    storage->targets, storage->lanes);
	if (storage->shares > 0.0
	    && (storage->seek_seconds > 0.0 || storage->ordered > 0.0))
		return sluice_fail (err, "targets that share equally neither seek nor keep "
					 "order: give seek_seconds 0 and ordered 0");
	return sluice_turns_config_check (&storage->turns, err);
}

static int
check_program (const struct sluice_program *program, const struct sluice_storage *storage,
	       struct sluice_error *err)
{
#define CHECK(name, value, low, high, unit, text)                                          \
	if (check_field ("program", #name, program->name, low, high, err) < 0)             \
		return -1;
	SLUICE_PROGRAM_FIELDS (CHECK)
#undef CHECK
	double count = program->target_count;
	if (program->first_target + fmax (count, 1.0) > storage->targets)
		return sluice_fail (
		    err, "program uses targets %g to %g of %g", program->first_target,
		    program->first_target + fmax (count, 1.0) - 1.0, storage->targets);
	if (program->sync > SLUICE_SYNC_FLUSH || program->dispatch > SLUICE_DISPATCH_REROUTE
	    || program->yields > SLUICE_YIELD_FLUSH || program->coverage > SLUICE_UNSEEN)
		return sluice_fail (err, "program has an unknown sync, dispatch, yields or "
					 "coverage");
	if (!program->in_step && (program->compute > 0.0 || program->overlaps))
		return sluice_fail (err, "program computes between its bursts: give it "
					 "in_step = 1");
	if (program->burst_seconds > 0.0 && !program->in_step)
		return sluice_fail (err, "program has burst_seconds: give it in_step = 1");
	if (!program->in_step && !(program->bursts > 0.0))
		return sluice_fail (err, "program has no bursts: give it in_step = 1");
	if (program->dispatch != SLUICE_DISPATCH_FREE
	    && (program->yields != SLUICE_YIELD_NEVER || program->divides))
		return sluice_fail (err, "program takes turns on targets: it can neither "
					 "yield nor divide");
	if (program->yields != SLUICE_YIELD_NEVER && program->sync == SLUICE_SYNC_BEHIND)
		return sluice_fail (err, "program yields: give it sync ack or flush");
	if (program->dispatch != SLUICE_DISPATCH_FREE && program->stripe_targets > 1.0)
		return sluice_fail (err, "program takes turns on targets: give its files "
					 "one target each (stripe_targets 1)");
	return 0;
}

static void
set_up_outcome (struct program *program, struct sluice_program_outcome *outcome)
{
	program->outcome = outcome;
	*outcome = (struct sluice_program_outcome){
		.end = INFINITY,
		.share_time = INFINITY,
	};
}

uint32_t
rq_lane_end (const struct simulation *s, uint32_t lane)
{
	double end = (double)(lane + 1U) * s->storage->targets / s->storage->lanes;
	return lane == UINT32_MAX ? 0 : (uint32_t)end;
}

static uint32_t
lane_of (const struct simulation *s, uint32_t target)
{
	uint32_t lane = 0;
	while (rq_lane_end (s, lane) <= target)
		lane++;
	return lane;
}

static uint32_t
own_target_count (const struct simulation *s, const struct sluice_program *is)
{
	double rest = s->storage->targets - is->first_target;
	return (uint32_t)(is->target_count > 0.0 ? is->target_count : rest);
}

static void
take_own_targets (const struct simulation *s, struct program *program)
{
	program->lane_mask = 0;
	program->target_count = own_target_count (s, program->is);
	for (uint32_t i = 0; i < program->target_count; i++) {
		program->targets[i] = (uint32_t)program->is->first_target + i;
		program->lane_mask |= 1U << lane_of (s, program->targets[i]);
	}
}

static int
set_up_program (struct simulation *s, struct program *program,
		const struct sluice_program *is)
{
	program->is = is;
	program->target_count = own_target_count (s, is);
	program->writing = (uint32_t)is->processes;
	program->total = is->processes * is->bursts * is->operations * is->operation_bytes;
	program->collapses = rq_can_collapse (s, program);
	program->flow_count = rq_flow_count (program, is->operations);
	program->ends_at = INFINITY;
	program->usual = burst_usual (s->storage->seed, program_number (s, program),
				      (uint32_t)is->bursts, s->storage->burst_spread, 1.0);
	program->first_process = s->process_count;
	program->first_stream = s->stream_count;
	s->stream_count += is->interleaved ? 1 : (uint32_t)is->processes;
	s->process_count += (uint32_t)is->processes;
	s->node_count += (uint32_t)is->nodes;
	s->running += !is->noise;
	if (program->flow_count > s->flows_each)
		s->flows_each = program->flow_count;
	program->target_bytes = calloc (s->target_count, sizeof (double));
	program->groups = calloc (program->target_count, sizeof *program->groups);
	program->targets = calloc (s->target_count, sizeof *program->targets);
	if (!program->target_bytes || !program->groups || !program->targets)
		return -1;
	take_own_targets (s, program);
	return 0;
}

static void
set_up_processes (struct simulation *s, struct program *program, uint32_t first_node)
{
	const struct sluice_program *is = program->is;
	for (uint32_t rank = 0; rank < (uint32_t)is->processes; rank++) {
		uint64_t number = program->first_process + rank;
		double node = floor (rank * is->nodes / is->processes);
		s->processes[number] = (struct process){
			.program = (uint32_t)(program - s->programs),
			.rank = rank,
			.node = first_node + (uint32_t)node,
			.burst_at = INFINITY,
			.flow_count = program->flow_count,
			.home = rank % program->target_count,
		};
	}
}

static int
allocate (struct simulation *s)
{
	size_t flows = (size_t)s->process_count * s->flows_each;
	size_t streams = (size_t)s->target_count * s->stream_count;
	if (flows > MOST_FLOWS || streams > MOST_FLOWS)
		return -1;
	s->processes = calloc (s->process_count, sizeof *s->processes);
	s->flows = calloc (flows, sizeof *s->flows);
	s->node_clocks = calloc (s->node_count, sizeof *s->node_clocks);
	s->node_staged = calloc (s->node_count, sizeof *s->node_staged);
	s->streams = calloc (streams, sizeof *s->streams);
	s->targets = calloc (s->target_count, sizeof *s->targets);
	s->servers = calloc (s->server_count, sizeof *s->servers);
	if (!s->processes || !s->flows || !s->node_clocks || !s->node_staged || !s->streams
	    || !s->targets || !s->servers)
		return -1;
	for (size_t i = 0; i < streams; i++)
		s->streams[i].head = NOTHING;
	for (uint32_t i = 0; i < s->server_count; i++)
		s->servers[i].arrived.first = s->servers[i].cached.first = NOTHING;
	for (uint32_t i = 0; i < s->target_count; i++)
		s->targets[i] = (struct target){
			.present = NOTHING,
			.first = NOTHING,
			.joinable = NOTHING,
		};
	return 0;
}

static int
set_up (struct simulation *s, const struct sluice_program *programs,
	struct sluice_program_outcome *outcomes)
{
	s->target_count = (uint32_t)s->storage->targets;
	s->server_count = (uint32_t)s->storage->servers;
	s->free_unit = NOTHING;
	s->stream_count = 1; /* of the commits, and of all where nothing seeks */
	s->programs = calloc (s->program_count, sizeof *s->programs);
	if (!s->programs)
		return -1;
	for (uint32_t i = 0; i < s->program_count; i++) {
		if (set_up_program (s, &s->programs[i], &programs[i]) < 0)
			return -1;
		set_up_outcome (&s->programs[i], &outcomes[i]);
	}
	if (s->storage->shares > 0.0)
		s->stream_count = s->program_count;
	else if (!(s->storage->seek_seconds > 0.0))
		s->stream_count = 1;
	if (allocate (s) < 0)
		return -1;
	uint32_t node = 0;
	for (uint32_t i = 0; i < s->program_count; i++) {
		set_up_processes (s, &s->programs[i], node);
		node += (uint32_t)programs[i].nodes;
	}
	return rq_init_turns (s);
}

static void
tear_down (struct simulation *s)
{
	for (uint32_t i = 0; s->programs && i < s->program_count; i++) {
		free (s->programs[i].groups);
		free (s->programs[i].target_bytes);
		free (s->programs[i].targets);
	}
	free (s->programs);
	free (s->processes);
	free (s->flows);
	free (s->node_clocks);
	free (s->node_staged);
	free (s->streams);
	free (s->targets);
	free (s->servers);
	free (s->events);
	free (s->units);
	burst_control_free (&s->control);
}

static void
report (const struct simulation *s)
{
	for (uint32_t i = 0; i < s->program_count; i++) {
		const struct program *program = &s->programs[i];
		struct sluice_program_outcome *outcome = program->outcome;
		outcome->stopped = s->now;
		outcome->drained = fmax (outcome->drained, outcome->end);
		outcome->smallest_target = INFINITY;
		for (uint32_t t = 0; t < program->target_count; t++) {
			double bytes = program->target_bytes[program->targets[t]];
			outcome->largest_target = fmax (outcome->largest_target, bytes);
			outcome->smallest_target = fmin (outcome->smallest_target, bytes);
		}
	}
}

static int
check (const struct sluice_storage *storage, const struct sluice_program *programs,
       uint32_t count, struct sluice_error *err)
{
	if (check_storage (storage, err) < 0)
		return -1;
	for (uint32_t i = 0; i < count; i++)
		if (check_program (&programs[i], storage, err) < 0)
			return -1;
	return 0;
}

static int
no_memory (struct sluice_error *err)
{
	return sluice_fail (err, "no memory for so many processes, targets and requests");
}

/* What a program's rate and demand are measured by: one burst, not longer than it takes. */
static struct sluice_program
sample_of (const struct sluice_program *program)
{
	struct sluice_program sample = *program;
	sample.bursts = 1.0;
	sample.operations = fmin (program->operations, ENOUGH_OPERATIONS);
	sample.compute = sample.start = 0.0;
	sample.noise = sample.in_step = sample.overlaps = 0;
	sample.yields = SLUICE_YIELD_NEVER;
	return sample;
}

/* Simulate a program alone, and note its rate and its shares of the stations. */
static int
measure_alone (const struct sluice_storage *storage, struct program *program)
{
	struct sluice_storage quiet = *storage;
	struct sluice_program sample = sample_of (program->is);
	struct sluice_program_outcome outcome;
	quiet.turns.is_on = 0;
	quiet.burst_spread = quiet.jitter_seconds = 0.0;
	struct simulation s = { .storage = &quiet, .program_count = 1 };
	int failed = set_up (&s, &sample, &outcome) < 0;
	if (!failed) {
		rq_start_program (&s, &s.programs[0], 0.0);
		failed = rq_run_to_end (&s) < 0;
	}
	program->alone = outcome.bytes / s.now;
	program->demand[SLUICE_STATION_BYTES]
	    = s.busy[SLUICE_STATION_BYTES] / s.now / storage->targets;
	program->demand[SLUICE_STATION_LINKS]
	    = s.busy[SLUICE_STATION_LINKS] / s.now / storage->servers;
	program->demand[SLUICE_STATION_METADATA] = s.busy[SLUICE_STATION_METADATA] / s.now;
	tear_down (&s);
	return failed ? -1 : 0;
}

/* What turns take a program's first burst to need. */
static void
expect (struct simulation *s, struct program *program)
{
	const struct sluice_program *is = program->is;
	const double told[SLUICE_STATION_COUNT] = {
		[SLUICE_STATION_BYTES] = is->target_share,
		[SLUICE_STATION_LINKS] = is->link_share,
		[SLUICE_STATION_METADATA] = is->metadata_share,
	};
	int is_told = is->target_share + is->link_share + is->metadata_share > 0.0;
	burst_expect (&s->control, &program->burst, is->most_held, is->expected,
		      is_told ? told : program->demand);
}

/* As many writes as a burst of `burst_seconds` takes. */
static void
fill_burst (struct program *program)
{
	const struct sluice_program *is = program->is;
	double bytes = program->alone * is->burst_seconds / is->processes;
	if (is->burst_seconds > 0.0)
		program->usual *= bytes / is->operation_bytes / is->operations;
}

/* Measure all programs alone, and let control know. */
static int
measure_all (struct simulation *s)
{
	for (uint32_t i = 0; i < s->program_count; i++) {
		struct program *program = &s->programs[i];
		if (program->is->bursts > 0.0 && measure_alone (s->storage, program) < 0)
			return -1;
		fill_burst (program);
		expect (s, program);
	}
	return 0;
}

static int
needs_alone (const struct sluice_storage *storage, const struct sluice_program *programs,
	     uint32_t count)
{
	int needs = storage->turns.is_on != 0;
	for (uint32_t i = 0; i < count; i++)
		needs |= programs[i].burst_seconds > 0.0;
	return needs;
}

int64_t
sluice_discrete_event_run (const struct sluice_storage *storage,
			   const struct sluice_program *programs, uint32_t count,
			   double stop_share, sluice_turns_watch *watch, void *watcher,
			   struct sluice_program_outcome *outcomes,
			   struct sluice_error *err)
{
	if (check (storage, programs, count, err) < 0)
		return -1;
	struct simulation s
	    = { .storage = storage, .program_count = count, .stop_share = stop_share };
	int64_t events = -1;
	if (set_up (&s, programs, outcomes) == 0
	    && (!needs_alone (storage, programs, count) || measure_all (&s) == 0)) {
		s.control.watch = watch;
		s.control.watcher = watcher;
		for (uint32_t i = 0; i < count; i++)
			rq_start_program (&s, &s.programs[i], programs[i].start);
		events = rq_run_to_end (&s);
		report (&s);
	}
	if (events < 0)
		no_memory (err);
	tear_down (&s);
	return events;
}

struct sluice_discrete_event {
	struct simulation is;
};

struct sluice_discrete_event *
sluice_discrete_event_new (const struct sluice_storage *storage,
			   const struct sluice_program *programs, uint32_t count,
			   struct sluice_program_outcome *outcomes,
			   struct sluice_error *err)
{
	if (check (storage, programs, count, err) < 0)
		return NULL;
	struct sluice_discrete_event *simulation = calloc (1, sizeof *simulation);
	if (!simulation) {
		no_memory (err);
		return NULL;
	}
	struct simulation *s = &simulation->is;
	s->storage = storage;
	s->program_count = count;
	s->ended = NOTHING;
	if (set_up (s, programs, outcomes) == 0 && measure_all (s) == 0)
		return simulation;
	no_memory (err);
	sluice_discrete_event_destroy (simulation);
	return NULL;
}

void
sluice_discrete_event_destroy (struct sluice_discrete_event *simulation)
{
	if (simulation)
		tear_down (&simulation->is);
	free (simulation);
}

void
sluice_discrete_event_watch_turns (struct sluice_discrete_event *simulation,
				   sluice_turns_watch *watch, void *watcher)
{
	simulation->is.control.watch = watch;
	simulation->is.control.watcher = watcher;
}

static void
confine (struct simulation *s, struct program *program, uint32_t lanes)
{
	program->lane_mask = lanes;
	program->target_count = 0;
	for (uint32_t target = 0; target < s->target_count; target++)
		if (lanes >> lane_of (s, target) & 1U)
			program->targets[program->target_count++] = target;
}

void
sluice_discrete_event_start (struct sluice_discrete_event *simulation, double now,
			     uint32_t number, uint32_t lane_mask)
{
	struct simulation *s = &simulation->is;
	uint32_t lanes = lane_mask & ((1U << s->control.storage.lane_count) - 1U);
	if (lanes)
		confine (s, &s->programs[number], lanes);
	else
		take_own_targets (s, &s->programs[number]);
	s->now = fmax (s->now, now);
	rq_start_program (s, &s->programs[number], s->now);
}

void
sluice_discrete_event_stop (struct sluice_discrete_event *simulation, double now,
			    uint32_t number)
{
	struct simulation *s = &simulation->is;
	s->now = fmax (s->now, now);
	rq_stop_program (s, &s->programs[number]);
}

int
sluice_discrete_event_next (struct sluice_discrete_event *simulation, double until,
			    double *time, uint32_t *program)
{
	struct simulation *s = &simulation->is;
	s->ended = NOTHING;
	while (s->ended == NOTHING && rq_step (s, until)) {
	}
	*time = s->now;
	*program = s->ended;
	return s->out_of_memory ? -1 : s->ended != NOTHING;
}

/*
 * The right to write: one operation at a time on each target, and with re-routing a
 * target whose own group has drained takes waiting operations of busy groups
 * (Huang et al.). Late and lazy: no operation is moved before its turn could have come,
 * and nothing is monitored. A target refuses when what it took from other groups
 * would exceed the throttle's share of its own.
 */

static void
write_on (struct simulation *s, uint32_t number, uint32_t target)
{
	struct process *process = &s->processes[number];
	process->on = target;
	program_of (s, number)->groups[target].is_writing = 1;
	rq_schedule (s, s->now + s->storage->setup_seconds, EVENT_OPERATION, number);
}

static uint32_t
take_waiting (struct simulation *s, struct group *group)
{
	uint32_t process = group->first;
	group->first = s->processes[process].next_waiting;
	group->waiting--;
	return process;
}

void
rq_take_turn (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	struct group *group = &program_of (s, number)->groups[process->home];
	if (!group->is_writing) {
		write_on (s, number, process->home);
		return;
	}
	process->next_waiting = NOTHING;
	if (group->waiting++)
		s->processes[group->last].next_waiting = number;
	else
		group->first = number;
	group->last = number;
}

static int
is_throttled (const struct program *program, const struct group *group)
{
	double bytes = program->is->operation_bytes;
	return group->foreign + bytes > program->is->throttle * group->own;
}

/* The busy group that gives: the next one in turn that has anybody waiting, or the
 * longest queue of all, as an inquiry found at the first idle message and the
 * coordinator has counted since. NOTHING when none waits. */
static uint32_t
find_busy (struct program *program)
{
	uint32_t found = NOTHING;
	for (uint32_t i = 0; i < program->target_count; i++) {
		uint32_t candidate = (program->turn + i) % program->target_count;
		uint32_t waiting = program->groups[candidate].waiting;
		if (program->groups[candidate].is_drained)
			continue; /* it has said so itself */
		if (!program->is->inquiry)
			program->outcome->messages += 2; /* asked, answered */
		if (!waiting
		    || (found != NOTHING && program->groups[found].waiting >= waiting))
			continue;
		found = candidate;
		if (!program->is->inquiry)
			break;
	}
	if (program->is->inquiry && !program->inquired) {
		program->inquired = 1;
		program->outcome->messages += 2.0 * program->target_count;
	}
	return found;
}

static void
reroute_to (struct simulation *s, struct program *program, uint32_t target)
{
	struct group *group = &program->groups[target];
	if (is_throttled (program, group))
		return;
	group->is_drained = 1;
	program->outcome->messages++; /* "I am idle" */
	uint32_t busy = find_busy (program);
	if (busy == NOTHING)
		return;
	program->turn = (busy + 1) % program->target_count;
	program->outcome->messages += 2; /* "write there", "done" */
	write_on (s, take_waiting (s, &program->groups[busy]), target);
}

void
rq_give_turn (struct simulation *s, uint32_t number)
{
	struct program *program = program_of (s, number);
	uint32_t target = s->processes[number].on;
	struct group *group = &program->groups[target];
	if (target == s->processes[number].home)
		group->own += program->is->operation_bytes;
	else
		group->foreign += program->is->operation_bytes;
	group->is_writing = 0;
	if (group->waiting)
		write_on (s, take_waiting (s, group), target);
	else if (program->is->dispatch == SLUICE_DISPATCH_REROUTE)
		reroute_to (s, program, target);
}

/*
 * Programs that keep off while another one writes (Kougkas et al., eScience 2016).
 *
 * A program that yields stages its operations in the memory of its nodes while one
 * that does not yield is in a burst. Where a node's buffer is full, it blocks until
 * no other writes, or writes on. What is staged goes to the storage by its own
 * process, one operation after the other, when the program is in no burst; one that
 * blocks waits for the others' end with this too.
 *
 * Programs that divide keep to equal parts of their targets while several of them
 * write, and have all targets when alone.
 */

int
rq_stage (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	const struct sluice_program *program = s->programs[process->program].is;
	double bytes = program->operation_bytes;
	if (program->yields == SLUICE_YIELD_NEVER || !s->holders)
		return 0;
	if (s->node_staged[process->node] + bytes > s->storage->buffer_bytes) {
		process->is_blocked = program->yields == SLUICE_YIELD_BLOCK;
		return process->is_blocked;
	}
	s->node_staged[process->node] += bytes;
	s->staged++;
	process->staged++;
	process->copy_clock = s->now + bytes / s->storage->buffer_bandwidth;
	rq_schedule (s, process->copy_clock, EVENT_STAGED, number);
	return 1;
}

/* Write on what is staged, if there is anything and it may. */
static void
drain (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	const struct program *program = program_of (s, number);
	int waits = program->is->yields == SLUICE_YIELD_BLOCK && s->holders;
	if (!process->staged || process->is_draining || program->bursting || waits)
		return;
	process->is_draining = 1;
	rq_schedule (s, s->now + s->storage->setup_seconds, EVENT_OPERATION, number);
}

void
rq_drained (struct simulation *s, uint32_t number)
{
	struct process *process = &s->processes[number];
	struct program *program = program_of (s, number);
	process->is_draining = 0;
	process->staged--;
	s->staged--;
	s->node_staged[process->node] -= program->is->operation_bytes;
	program->outcome->drained = s->now;
	if (process->is_burst_due) {
		process->is_burst_due = 0;
		rq_schedule_burst (s, number, s->now);
	} else {
		drain (s, number);
	}
	rq_stop_if_over (s);
}

void
rq_burst_begins (struct simulation *s, uint32_t number)
{
	struct program *program = program_of (s, number);
	program->bursting++;
	if (!program->in_burst)
		rq_turn_begins (s, program);
	s->holders += program->is->yields == SLUICE_YIELD_NEVER && !program->is->noise;
}

static void
drain_all (struct simulation *s, const struct program *program)
{
	for (uint32_t i = 0; s->staged && i < (uint32_t)program->is->processes; i++)
		drain (s, program->first_process + i);
}

void
rq_burst_ends (struct simulation *s, uint32_t number)
{
	struct program *program = program_of (s, number);
	program->bursting--;
	if (program->is->in_step ? !program->step_left : !program->bursting)
		rq_turn_ends (s, program);
	drain_all (s, program);
	if (program->is->yields != SLUICE_YIELD_NEVER || program->is->noise || --s->holders)
		return;
	for (uint32_t i = 0; i < s->process_count; i++) {
		if (s->processes[i].is_blocked) {
			s->processes[i].is_blocked = 0;
			rq_begin_operation (s, i);
		} else {
			drain (s, i);
		}
	}
}

struct span
rq_targets_of (const struct simulation *s, const struct program *program)
{
	uint32_t parts = 0, part = 0;
	for (uint32_t i = 0; program->is->divides && i < s->program_count; i++) {
		const struct program *other = &s->programs[i];
		if (other == program)
			part = parts++;
		else if (other->is->divides && other->bursting)
			parts++;
	}
	if (parts < 2 || program->target_count < parts)
		return (struct span){ 0, program->target_count };
	uint32_t first = part * program->target_count / parts;
	return (struct span){ first, (part + 1) * program->target_count / parts - first };
}
