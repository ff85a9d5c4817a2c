/*
 * Programs that keep off while another one writes (Kougkas et al., eScience 2016).
 *
 * A program that yields stages its operations in the memory of its nodes while one
 * that does not yield is in a burst. Where a node's buffer is full, it blocks until
 * nobody else writes, or writes on. What is staged goes to the storage by its own
 * process, one operation after the other, when the program is in no burst; one that
 * blocks waits for the others' end with this too.
 *
 * Programs that divide keep to equal parts of their targets while several of them
 * write, and have all targets when alone.
 */
#include "discrete_event_state.h"

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

void
rq_drain (struct simulation *s, uint32_t number)
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
		rq_schedule (s, s->now, EVENT_BURST, number);
	} else {
		rq_drain (s, number);
	}
	rq_stop_if_over (s);
}

void
rq_burst_begins (struct simulation *s, uint32_t number)
{
	struct program *program = program_of (s, number);
	program->bursting++;
	s->holders += program->is->yields == SLUICE_YIELD_NEVER && !program->is->noise;
}

static void
drain_all (struct simulation *s, const struct program *program)
{
	for (uint32_t i = 0; s->staged && i < (uint32_t)program->is->processes; i++)
		rq_drain (s, program->first_process + i);
}

void
rq_burst_ends (struct simulation *s, uint32_t number)
{
	struct program *program = program_of (s, number);
	program->bursting--;
	drain_all (s, program);
	if (program->is->yields != SLUICE_YIELD_NEVER || program->is->noise || --s->holders)
		return;
	for (uint32_t i = 0; i < s->process_count; i++) {
		if (s->processes[i].is_blocked) {
			s->processes[i].is_blocked = 0;
			rq_begin_operation (s, i);
		} else {
			rq_drain (s, i);
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
