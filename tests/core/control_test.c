/*
 * control_test BUNDLE SNAPSHOT: the control loop over random queues, poll after poll, as
 * nonsensical as a caller could make them. A sanitizer sees what is read or written out of
 * place; checked is what holds for any input: no job has two verdicts, releases and
 * decisions stay within their numbers, no gate lets out more than is wanted, and the same
 * queue gives the same bytes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "control.h"

enum { MOST = 300, POLLS = 40, QUEUES = 12, ROOMS = 3 };

struct queue {
	struct sluice_control *control;
	struct sluice_control_job jobs[MOST];
	const struct sluice_submission *submissions[MOST];
	uint32_t count;
	struct sluice_control_facts facts;
	struct sluice_control_gates gates;
};

static const struct sluice_submission submissions[] = {
	{ .uid = 1000, .name = "run_1", .nodes = 4, .time_limit = 60 },
	{ .uid = 1, .name = "never_seen", .account = "physics", .nodes = 100 },
	{ .uid = 3, .flags = SLUICE_SUBMIT_PTY, .launcher = SLUICE_LAUNCHER_SRUN },
};

/* An LCG, so that every machine draws the same. */
static uint64_t seed = 1;

static uint32_t
draw (uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % below);
}

static uint32_t
draw_number (void)
{
	static const uint32_t edges[] = { 0, 1, 2, 16, 1000, UINT32_MAX - 1, UINT32_MAX };
	return draw (4) ? draw (8) : edges[draw (sizeof edges / sizeof edges[0])];
}

static double
share (void)
{
	return draw (1001) / 1000.0;
}

static struct sluice_pressure
draw_pressure (void)
{
	return (struct sluice_pressure){
		.weight = 0.01 + 10 * share (),
		.streaming = share (),
		.log_sd = draw (2) * 0.3,
		.demand = share (),
		.metadata = draw (2) * share (),
		.io_share = 0.01 + 0.99 * share (),
		.confined = draw (3) ? 1.0 : 0.3 + 0.7 * share (),
	};
}

static void
draw_job (struct queue *q, uint32_t i)
{
	struct sluice_control_job *job = &q->jobs[i];
	memset (job, 0, sizeof *job);
	q->submissions[i] = NULL;
	job->state = draw (SLUICE_CONTROL_RUNS + 1);
	if (job->state == SLUICE_CONTROL_ABSENT)
		return;
	job->job_id = i + 1;
	job->array_id = draw (3) ? 0 : 1 + draw (3);
	job->flags = draw (2) ? SLUICE_CONTROL_RECORDED | SLUICE_CONTROL_GRANTED
				    | SLUICE_CONTROL_PREDICTED | SLUICE_CONTROL_NEXT
			      : draw (256);
	job->tokens.klass = draw (SLUICE_CLASS_COUNT);
	job->tokens.lane_mask = draw (4);
	job->tasks = draw (4) ? 1 : draw_number ();
	job->partition = draw (3) ? draw (ROOMS) : draw_number ();
	job->nodes = draw_number ();
	job->cpus = draw_number ();
	job->priority = draw_number ();
	job->submit = 1800000000 - draw (1000);
	job->eligible = draw (4) ? job->submit : (int64_t)draw_number ();
	job->start = 1800000000 - draw (1000);
	job->pressure = draw_pressure ();
	if (draw (4))
		q->submissions[i] = &submissions[draw (3)];
}

/* Draw jobs and facts anew, here and there. */
static void
disturb (struct queue *q)
{
	struct sluice_control_facts *f = &q->facts;
	for (uint32_t i = 0; i < q->count; i++)
		if (draw (10) == 0)
			draw_job (q, i);
	f->clock += draw (5) ? 1.0 : (double)draw (200);
	f->now = draw (9) ? 1800000000 : (int64_t)draw_number ();
	f->max_delay = draw (4) ? 30.0 : (double)draw (2);
	f->grace = 2.0;
	f->is_off = draw (20) == 0;
	f->releases = draw (60);
	f->version = draw (3);
	f->boot = 1;
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++) {
			f->totals[k][lane] = draw (9) ? 1000000 : draw_number ();
			f->free[k][lane] = draw (3) ? 0 : draw_number ();
		}
}

static void
check_actions (const struct queue *q, uint32_t releases)
{
	static unsigned char seen[MOST];
	const uint32_t *actions;
	uint32_t count = sluice_control_actions (q->control, &actions), released = 0;

	memset (seen, 0, sizeof seen);
	for (uint32_t a = 0; a < count; a++) {
		const struct sluice_control_job *job = &q->jobs[actions[a]];
		CHECK (actions[a] < q->count && !seen[actions[a]]++);
		CHECK (job->tokens.lane_mask && job->verdict.action);
		if (job->verdict.action == SLUICE_VERDICT_RELEASE) {
			released++;
			CHECK (job->verdict.release > SLUICE_RELEASE_NONE);
			CHECK (job->verdict.release < SLUICE_RELEASE_COUNT);
		} else {
			CHECK (job->state == SLUICE_CONTROL_WAITS);
			CHECK (job->verdict.tokens.lane_mask != 0);
			CHECK (job->memory.moves <= SLUICE_CONTROL_MOVES);
		}
	}
	CHECK (released + q->facts.releases == releases);
}

static void
check_gates (const struct queue *q, uint32_t lanes)
{
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++) {
			uint64_t wanted = 0;
			for (uint32_t i = 0; i < q->count; i++)
				if (q->jobs[i].tokens.klass == k
				    && q->jobs[i].tokens.lane_mask >> lane & 1)
					wanted += q->jobs[i].state == SLUICE_CONTROL_WAITS
						      ? q->jobs[i].tasks
						      : 1;
			CHECK (q->gates.tokens[k][lane] <= wanted);
			CHECK (lane < lanes || q->gates.tokens[k][lane] == 0);
		}
}

static void
poll (struct queue *q, const struct sluice_situation *situation,
      const struct sluice_config *config, const struct sluice_control_room *rooms)
{
	sluice_control_room (q->control, q->jobs, q->count, rooms, ROOMS, &q->facts);
	sluice_control_bound (q->control, q->jobs, q->count, &q->facts);
	sluice_control_poll (q->control, q->jobs, q->submissions, q->count, situation,
			     config, &q->facts, &q->gates);
}

/* The same queue before a loop that has never seen one. */
static void
check_repeated (const struct queue *before, const struct queue *after,
		const struct sluice_situation *situation,
		const struct sluice_config *config, const struct sluice_control_room *rooms)
{
	static struct queue again;
	again = *before;
	again.control = sluice_control_create (before->count);
	CHECK (again.control != NULL);
	poll (&again, situation, config, rooms);
	CHECK (memcmp (again.jobs, after->jobs, sizeof again.jobs) == 0);
	CHECK (memcmp (&again.facts, &after->facts, sizeof again.facts) == 0);
	CHECK (memcmp (&again.gates, &after->gates, sizeof again.gates) == 0);
	sluice_control_destroy (again.control);
}

static void
test_any_queue_is_polled (uint32_t count, const struct sluice_situation *situation,
			  const struct sluice_config *config, uint32_t lanes)
{
	static struct queue q, before;
	struct sluice_control_room rooms[ROOMS];

	memset (&q, 0, sizeof q);
	q.count = count;
	q.facts.clock = 1.0;
	q.control = sluice_control_create (count);
	CHECK (q.control != NULL);
	for (uint32_t i = 0; i < count; i++)
		draw_job (&q, i);
	for (int p = 0; p < POLLS; p++) {
		disturb (&q);
		for (int r = 0; r < ROOMS; r++)
			rooms[r] = (struct sluice_control_room){
				.nodes = draw_number (),
				.cpus = draw_number (),
				.is_unlimited = draw (4) == 0,
			};
		before = q;
		poll (&q, situation, config, rooms);
		check_actions (&q, before.facts.releases);
		check_gates (&q, lanes);
		CHECK (sluice_control_decision_count (q.control)
		       <= SLUICE_CONTROL_DECISIONS);
		check_repeated (&before, &q, situation, config, rooms);
	}
	sluice_control_destroy (q.control);
}

static void
test_words (void)
{
	for (unsigned int i = 0; i <= SLUICE_RELEASE_COUNT; i++)
		CHECK (*sluice_release_name (i) && *sluice_release_text (i));
	CHECK (strcmp (sluice_release_name (SLUICE_RELEASE_COUNT), "?") == 0);
}

int
main (int argc, char **argv)
{
	static const uint32_t counts[QUEUES]
	    = { 0, 1, 2, 3, 5, 8, 20, 40, 64, 65, 200, MOST };
	struct sluice_error error;
	struct sluice_bundle *bundle = NULL;
	struct sluice_snapshot *snapshot = NULL;
	struct sluice_config config;

	if (argc != 3 || sluice_bundle_load (argv[1], getuid (), &bundle, &error) < 0
	    || sluice_snapshot_load (argv[2], getuid (), &snapshot, &error) < 0)
		return 2;
	struct sluice_situation *situation = sluice_situation_create (bundle, snapshot);
	sluice_config_init (&config);
	config.mode = SLUICE_MODE_ENFORCE;
	for (int i = 0; i < QUEUES; i++)
		test_any_queue_is_polled (counts[i], situation, &config,
					  sluice_bundle_policy (bundle)->lane_count);
	test_words ();
	sluice_situation_destroy (situation);
	sluice_snapshot_destroy (snapshot);
	sluice_bundle_destroy (bundle);
	return check_report ();
}
