/*
 * Who may write: one operation at a time on each target, and with re-routing a
 * target whose own group has drained takes waiting operations of busy groups
 * (Huang et al.). Late and lazy: nobody is moved before its turn could have come,
 * and nothing is monitored. A target refuses when what it took from other groups
 * would exceed the throttle's share of its own.
 */
#include "discrete_event_state.h"

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
 * coordinator has counted since. NOTHING when nobody waits. */
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
