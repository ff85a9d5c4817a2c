#include "running_jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A running job that matters to storage. */
struct runner {
	struct sluice_corunner corunner;
	int64_t limit; /* UTC seconds */
};

struct running_jobs {
	const struct sluice_bundle *bundle;
	struct sluice_corunner_set *set;
	uint64_t version;
	int64_t next_overdue; /* UTC seconds: the first expected end before a limit */
	uint32_t count;
	struct runner runners[SLUICE_MAX_CORUNNERS];
};

struct running_jobs *
running_jobs_new (const struct sluice_bundle *bundle)
{
	struct running_jobs *c = calloc (1, sizeof *c);
	if (!c)
		return NULL;
	c->bundle = bundle;
	c->version = 1; /* not yet read */
	c->next_overdue = INT64_MAX;
	c->set = sluice_corunner_set_create (bundle);
	if (c->set)
		return c;
	free (c);
	return NULL;
}

void
running_jobs_destroy (struct running_jobs *c)
{
	if (!c)
		return;
	sluice_corunner_set_destroy (c->set);
	free (c);
}

static void
note_end (struct running_jobs *c, const struct runner *runner)
{
	int64_t end = runner->corunner.expected_end;
	if (end < runner->limit && end < c->next_overdue)
		c->next_overdue = end;
}

int
running_jobs_enter (struct running_jobs *c, struct sluice_corunner *corunner, int64_t now,
		    int64_t limit)
{
	double usual = corunner->profile.runtime_seconds;
	corunner->expected_end = limit;
	if (usual > 0.0 && usual < (double)(limit - now))
		corunner->expected_end = now + 1 + (int64_t)ceil (usual);
	if (sluice_corunner_set_add (c->set, corunner) < 0)
		return -1;
	struct runner *runner = &c->runners[c->count++];
	*runner = (struct runner){
		.corunner = *corunner,
		.limit = limit,
	};
	note_end (c, runner);
	c->version++;
	return 0;
}

void
running_jobs_place (struct running_jobs *c, const struct sluice_placed_job *job,
		    int is_there)
{
	sluice_corunner_set_place (c->set, job, is_there);
	c->version++;
}

void
running_jobs_see (struct running_jobs *c, const struct sluice_target *target)
{
	sluice_corunner_set_see (c->set, target);
	c->version++;
}

void
running_jobs_leave (struct running_jobs *c, uint32_t job_id)
{
	uint32_t at = 0;
	while (at < c->count && c->runners[at].corunner.job_id != job_id)
		at++;
	if (at == c->count)
		return;
	sluice_corunner_set_remove (c->set, job_id);
	c->runners[at] = c->runners[--c->count];
	c->version++;
}

uint64_t
running_jobs_update (struct running_jobs *c, int64_t now)
{
	if (now < c->next_overdue)
		return c->version;
	c->next_overdue = INT64_MAX;
	for (uint32_t i = 0; i < c->count; i++) {
		struct runner *runner = &c->runners[i];
		if (runner->corunner.expected_end <= now
		    && runner->corunner.expected_end < runner->limit) {
			runner->corunner.expected_end = runner->limit;
			sluice_corunner_set_remove (c->set, runner->corunner.job_id);
			sluice_corunner_set_add (c->set, &runner->corunner);
			c->version++;
		}
		note_end (c, runner);
	}
	return c->version;
}

struct sluice_corunner_set *
running_jobs_set (struct running_jobs *c)
{
	return c->set;
}
