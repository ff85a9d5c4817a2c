#include "crowd_of_jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A running job that matters to storage. */
struct runner {
	struct sluice_corunner corunner;
	struct sluice_member member; /* its pressure on the lanes it may write to */
	uint32_t token_lanes;	     /* 0: it runs without tokens */
	int64_t limit;		     /* UTC seconds */
};

struct crowd_of_jobs {
	const struct sluice_bundle *bundle;
	struct sluice_crowd *crowd;
	uint64_t version;
	int64_t next_overdue; /* UTC seconds: the first expected end before a limit */
	uint32_t count;
	struct runner runners[SLUICE_MAX_CORUNNERS];
};

struct crowd_of_jobs *
crowd_of_jobs_new (const struct sluice_bundle *bundle)
{
	struct crowd_of_jobs *c = calloc (1, sizeof *c);
	if (!c)
		return NULL;
	c->bundle = bundle;
	c->version = 1; /* nobody has seen it yet */
	c->next_overdue = INT64_MAX;
	c->crowd = sluice_crowd_create (bundle);
	if (c->crowd)
		return c;
	free (c);
	return NULL;
}

void
crowd_of_jobs_destroy (struct crowd_of_jobs *c)
{
	if (!c)
		return;
	sluice_crowd_destroy (c->crowd);
	free (c);
}

static void
note_end (struct crowd_of_jobs *c, const struct runner *runner)
{
	int64_t end = runner->corunner.expected_end;
	if (end < runner->limit && end < c->next_overdue)
		c->next_overdue = end;
}

void
crowd_of_jobs_enter (struct crowd_of_jobs *c, struct sluice_corunner *corunner,
		     uint32_t token_lanes, int64_t now, int64_t limit)
{
	double usual = corunner->profile.runtime_seconds;
	corunner->expected_end = limit;
	if (usual > 0.0 && usual < (double)(limit - now))
		corunner->expected_end = now + 1 + (int64_t)ceil (usual);
	if (sluice_crowd_add (c->crowd, corunner) < 0)
		return;
	struct runner *runner = &c->runners[c->count++];
	*runner = (struct runner){
		.corunner = *corunner,
		.member = { .klass = corunner->klass, .job_id = corunner->job_id },
		.token_lanes = token_lanes,
		.limit = limit,
	};
	sluice_pressure_of (&corunner->profile, sluice_bundle_interference (c->bundle),
			    sluice_bundle_policy (c->bundle), corunner->lane_mask,
			    &runner->member.pressure);
	note_end (c, runner);
	c->version++;
}

void
crowd_of_jobs_leave (struct crowd_of_jobs *c, uint32_t job_id)
{
	uint32_t at = 0;
	while (at < c->count && c->runners[at].corunner.job_id != job_id)
		at++;
	if (at == c->count)
		return;
	sluice_crowd_remove (c->crowd, job_id);
	c->runners[at] = c->runners[--c->count];
	c->version++;
}

uint64_t
crowd_of_jobs_look (struct crowd_of_jobs *c, int64_t now)
{
	if (now < c->next_overdue)
		return c->version;
	c->next_overdue = INT64_MAX;
	for (uint32_t i = 0; i < c->count; i++) {
		struct runner *runner = &c->runners[i];
		if (runner->corunner.expected_end <= now
		    && runner->corunner.expected_end < runner->limit) {
			runner->corunner.expected_end = runner->limit;
			sluice_crowd_remove (c->crowd, runner->corunner.job_id);
			sluice_crowd_add (c->crowd, &runner->corunner);
			c->version++;
		}
		note_end (c, runner);
	}
	return c->version;
}

uint64_t
crowd_of_jobs_version (const struct crowd_of_jobs *c)
{
	return c->version;
}

struct sluice_crowd *
crowd_of_jobs_crowd (struct crowd_of_jobs *c)
{
	return c->crowd;
}

static int
lane_admits (const struct crowd_of_jobs *c, const struct sluice_member *member,
	     uint32_t lane)
{
	struct sluice_member members[SLUICE_MAX_SET + 1];
	struct sluice_pressure background[SLUICE_MAX_SET];
	uint32_t n_running = 0, n_background = 0;
	for (uint32_t i = 0; i < c->count; i++) {
		const struct runner *runner = &c->runners[i];
		if (n_running + n_background == SLUICE_MAX_SET)
			return 0;
		if (!runner->token_lanes)
			background[n_background++] = runner->member.pressure;
		else if (runner->token_lanes >> lane & 1)
			members[n_running++] = runner->member;
	}
	members[n_running] = *member;
	return sluice_gates_admit (members, n_running, background, n_background,
				   sluice_bundle_interference (c->bundle),
				   sluice_bundle_policy (c->bundle));
}

/* Whether the same jobs hold tokens of both lanes: then both answer alike. */
static int
is_held_alike (const struct crowd_of_jobs *c, uint32_t lane, uint32_t other)
{
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t lanes = c->runners[i].token_lanes;
		if ((lanes >> lane ^ lanes >> other) & 1)
			return 0;
	}
	return 1;
}

int
crowd_of_jobs_admits (const struct crowd_of_jobs *c, const struct sluice_member *member,
		      uint32_t token_lanes)
{
	for (uint32_t lane = 0; token_lanes >> lane; lane++) {
		uint32_t asked = 0;
		if (!(token_lanes >> lane & 1))
			continue;
		while (asked < lane
		       && !(token_lanes >> asked & 1 && is_held_alike (c, lane, asked)))
			asked++;
		if (asked == lane && !lane_admits (c, member, lane))
			return 0;
	}
	return 1;
}
