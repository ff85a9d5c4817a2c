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
	MOST_FLOWS = 1U << 26, /* flows, and streams of all targets: half a GiB */
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
	return 0;
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
	    || program->yields > SLUICE_YIELD_FLUSH)
		return sluice_fail (err, "program has an unknown sync, dispatch or yields");
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
		.first_start = program->is->start,
		.end = INFINITY,
		.share_time = INFINITY,
	};
}

static int
set_up_program (struct simulation *s, struct program *program,
		const struct sluice_program *is)
{
	double rest = s->storage->targets - is->first_target;
	program->is = is;
	program->target_count
	    = (uint32_t)(is->target_count > 0.0 ? is->target_count : rest);
	program->writing = (uint32_t)is->processes;
	program->total = is->processes * is->bursts * is->operations * is->operation_bytes;
	program->collapses = rq_can_collapse (s, program);
	program->flow_count = rq_flow_count (program);
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
	return program->target_bytes && program->groups ? 0 : -1;
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
			.bursts_left = (uint32_t)is->bursts,
			.flow_count = program->flow_count,
			.home = rank % program->target_count,
		};
		double late
		    = s->storage->jitter_seconds * rq_random (s, &number, sizeof number);
		rq_schedule (s, is->start + late, EVENT_BURST, (uint32_t)number);
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
	if (!(s->storage->seek_seconds > 0.0))
		s->stream_count = 1;
	if (allocate (s) < 0)
		return -1;
	uint32_t node = 0;
	for (uint32_t i = 0; i < s->program_count; i++) {
		set_up_processes (s, &s->programs[i], node);
		node += (uint32_t)programs[i].nodes;
	}
	return s->out_of_memory ? -1 : 0;
}

static void
tear_down (struct simulation *s)
{
	for (uint32_t i = 0; s->programs && i < s->program_count; i++) {
		free (s->programs[i].groups);
		free (s->programs[i].target_bytes);
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
}

static void
report (const struct simulation *s)
{
	for (uint32_t i = 0; i < s->program_count; i++) {
		const struct program *program = &s->programs[i];
		struct sluice_program_outcome *outcome = program->outcome;
		uint32_t first = (uint32_t)program->is->first_target;
		outcome->stopped = s->now;
		outcome->drained = fmax (outcome->drained, outcome->end);
		outcome->smallest_target = INFINITY;
		for (uint32_t t = first; t < first + program->target_count; t++) {
			double bytes = program->target_bytes[t];
			outcome->largest_target = fmax (outcome->largest_target, bytes);
			outcome->smallest_target = fmin (outcome->smallest_target, bytes);
		}
	}
}

int64_t
sluice_discrete_event_run (const struct sluice_storage *storage,
			   const struct sluice_program *programs, uint32_t count,
			   double stop_share, struct sluice_program_outcome *outcomes,
			   struct sluice_error *err)
{
	if (check_storage (storage, err) < 0)
		return -1;
	for (uint32_t i = 0; i < count; i++)
		if (check_program (&programs[i], storage, err) < 0)
			return -1;
	struct simulation s
	    = { .storage = storage, .program_count = count, .stop_share = stop_share };
	int64_t events = -1;
	if (set_up (&s, programs, outcomes) == 0) {
		events = rq_run_to_end (&s);
		report (&s);
	}
	if (events < 0)
		sluice_fail (err, "no memory for so many processes, targets and requests");
	tear_down (&s);
	return events;
}
