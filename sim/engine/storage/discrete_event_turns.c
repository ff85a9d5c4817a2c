/*
 * Bursts that take turns (bursts.h): programs as control observes them, and its verdicts
 * put into effect. A burst of a program lasts from its first process's begin to its last
 * one's end. Processes that may not write wait in a line, in the order of asking; those of
 * a program that goes in part leave it as fast as that part allows.
 */
#include <math.h>

#include "discrete_event_state.h"

static void
init_lanes (struct simulation *s)
{
	const struct sluice_storage *is = s->storage;
	struct sluice_turns_storage *storage = &s->control.storage;
	storage->metadata = 1.0;
	storage->lane_count = (uint32_t)is->lanes;
	for (uint32_t i = 0; i < storage->lane_count; i++) {
		double targets = rq_lane_end (s, i) - rq_lane_end (s, i - 1);
		storage->lanes[i] = (struct sluice_turns_lane){
			.targets = targets,
			.bytes = targets / is->targets,
			.links = targets / is->targets,
		};
	}
}

int
rq_init_turns (struct simulation *s)
{
	burst_control_init (&s->control, &s->storage->turns, s->storage->seed);
	init_lanes (s);
	for (uint32_t i = 0; i < s->program_count; i++) {
		struct program *program = &s->programs[i];
		program->first_held = NOTHING;
		program->wake_at = INFINITY;
		burst_begin (&program->burst, 0.0);
		burst_expect (&s->control, &program->burst, program->is->most_held,
			      program->is->expected, program->demand);
	}
	return burst_control_grow (&s->control, s->program_count);
}

static void
ask (struct simulation *s)
{
	burst_control_ask (&s->control, s->now);
	if (isfinite (s->control.at))
		rq_schedule (s, s->control.at, EVENT_CONTROL, 0);
}

void
rq_turn_begins (struct simulation *s, struct program *program)
{
	program->in_burst = 1;
	program->burst_began = s->now;
	program->burst_bytes = 0.0;
	burst_begin (&program->burst, s->now);
	ask (s);
}

/* s that what it has written of its burst takes alone. */
static double
seconds_done (const struct program *program)
{
	return program->alone > 0.0 ? program->burst_bytes / program->alone : 0.0;
}

static void
account_burst (struct simulation *s, struct program *program)
{
	program->in_burst = 0;
	program->outcome->io += s->now - program->burst_began;
	program->outcome->io_alone += seconds_done (program);
	burst_end (&s->control, &program->burst, s->now);
	burst_begin (&program->burst, s->now);
	program->outcome->held = program->burst.held_in_all;
	program->outcome->saving = program->burst.saving_in_all;
	ask (s);
}

void
rq_turn_ends (struct simulation *s, struct program *program)
{
	uint32_t number = s->processes[program->first_process].bursts_left;
	account_burst (s, program);
	burst_learn (&s->control, &program->burst, program_number (s, program), number,
		     seconds_done (program), program->demand);
}

static uint32_t
pop_held (struct simulation *s, struct program *program)
{
	uint32_t number = program->first_held;
	program->first_held = s->processes[number].next_held;
	s->processes[number].is_held = 0;
	return number;
}

void
rq_forget_turn (struct simulation *s, struct program *program)
{
	while (program->first_held != NOTHING)
		pop_held (s, program);
	if (program->in_burst)
		account_burst (s, program);
}

static void
wait_in_line (struct simulation *s, struct program *program, uint32_t number)
{
	struct process *process = &s->processes[number];
	if (process->is_held)
		return;
	process->is_held = 1;
	process->next_held = NOTHING;
	if (program->first_held == NOTHING)
		program->first_held = number;
	else
		s->processes[program->last_held].next_held = number;
	program->last_held = number;
}

static void
wake_later (struct simulation *s, struct program *program)
{
	if (!(program->burst.allowed > 0.0) || program->first_held == NOTHING)
		return;
	program->wake_at = program->pace_clock;
	rq_schedule (s, program->wake_at, EVENT_WAKE, program_number (s, program));
}

static int
may_go (const struct simulation *s, const struct program *program)
{
	double allowed = program->burst.allowed;
	return allowed >= 1.0 || (allowed > 0.0 && program->pace_clock <= s->now);
}

int
rq_may_write (struct simulation *s, uint32_t number, double bytes)
{
	struct program *program = program_of (s, number);
	double allowed = program->burst.allowed;
	if (allowed >= 1.0)
		return 1;
	if (may_go (s, program)) {
		program->pace_clock = s->now + bytes / (allowed * program->alone);
		return 1;
	}
	wait_in_line (s, program, number);
	if (!(program->wake_at < INFINITY))
		wake_later (s, program);
	return 0;
}

static void
resume_writes (struct simulation *s, struct program *program)
{
	program->wake_at = INFINITY;
	while (program->first_held != NOTHING && may_go (s, program))
		rq_resume (s, pop_held (s, program));
	wake_later (s, program);
}

void
rq_wake (struct simulation *s, uint32_t number)
{
	struct program *program = &s->programs[number];
	if (program->wake_at <= s->now)
		resume_writes (s, program);
}

/* Report all bursts that go on to control. */
static void
report_all (struct simulation *s)
{
	for (uint32_t i = 0; i < s->program_count; i++) {
		const struct program *program = &s->programs[i];
		struct sluice_turns_job is = {
			.key = i,
			.nodes = program->is->nodes,
			.done = seconds_done (program),
			.began = program->burst_began,
			.speed = -1.0, /* requests come and go: not known */
			.program = program->is->program,
			.lane_mask = program->lane_mask,
		};
		if (program->in_burst)
			burst_control_report (&s->control, s->now, i, &program->burst,
					      program->is->coverage, &is);
	}
}

void
rq_control (struct simulation *s)
{
	if (s->control.at > s->now)
		return; /* an earlier event did it */
	burst_control_begin (&s->control);
	report_all (s);
	burst_control_decide (&s->control, s->now);
	if (isfinite (s->control.at))
		rq_schedule (s, s->control.at, EVENT_CONTROL, 0);
	for (uint32_t k = 0; k < s->control.count; k++) {
		struct program *program = &s->programs[s->control.slots[k]];
		if (!burst_follow (&s->control, &program->burst, &s->control.turns[k],
				   s->now))
			continue;
		program->pace_clock = s->now;
		resume_writes (s, program);
	}
}
