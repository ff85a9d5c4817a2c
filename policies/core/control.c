#include "control.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "situation.h"

/* A job in some order. */
struct ranked {
	double key; /* the smallest first */
	uint32_t job_id;
	uint32_t index;
};

/* Representatives of waiting jobs besides two a kind. */
enum { FILLED = SLUICE_CLASS_COUNT * SLUICE_CONTROL_LIMIT };

/* A running job, to those that wait in its partition. */
struct runner {
	uint32_t partition;
	uint32_t priority;
	uint32_t job_id;
	uint32_t nodes;
	uint32_t cpus;
	int64_t eligible;
	int64_t start;
	int64_t latest; /* start of those up to this one in its partition */
};

/* Jobs with tokens that are alike to the gates: klass, lanes and pressure. How many of
 * those that wait is told for all (0), and for those that could start now (1). */
struct kind {
	uint32_t first;	     /* one of them: index into the jobs */
	uint32_t running;    /* jobs */
	uint32_t waiting[2]; /* with all tasks of arrays, as the next */
	uint32_t need[2];    /* of these, not decided to wait for others */
};

/* What the gates of a lane were sized for last, and the answer. */
struct answer {
	uint64_t question; /* hash; 0: none was asked */
	struct sluice_gates gates;
};

struct sluice_control {
	uint32_t capacity;
	struct sluice_workspace *workspace;
	struct ranked *ranked;
	struct ranked *strays;
	struct ranked *places; /* of jobs in the queue for room */
	uint32_t order_count;
	uint32_t *order; /* jobs as they were ranked for room last */
	uint32_t kind_count;
	struct kind *kinds;
	uint32_t slot_count; /* a power of two */
	uint32_t *slots;     /* hash table of kinds, each plus 1; 0: free */
	uint32_t *guesses;   /* the kind of each job, as it was numbered at the last poll */
	int is_confined;     /* jobs of some kind, so that no gate could let them in */
	uint32_t load_count;
	uint32_t runner_count;
	struct runner *runners; /* by partition and priority */
	uint32_t listed_count;
	uint32_t *listed; /* jobs that one step puts aside for the next */
	uint32_t action_count;
	uint32_t *actions;	       /* jobs with an action in their verdict */
	struct sluice_member *members; /* of a lane: those that run, then those that wait */
	struct sluice_member *chosen;  /* those that run, and who stands for the others */
	const struct sluice_pressure **loads;
	struct answer answers[SLUICE_MAX_LANES];
	uint32_t decision_count;
	struct sluice_control_decision decisions[SLUICE_CONTROL_DECISIONS];
};

#define NAME(name, json, text) json,
#define TEXT(name, json, text) text,

const char *
sluice_release_name (unsigned int release)
{
	static const char *const names[] = { SLUICE_RELEASES (NAME) };
	return release < SLUICE_RELEASE_COUNT ? names[release] : "?";
}

const char *
sluice_release_text (unsigned int release)
{
	static const char *const texts[] = { SLUICE_RELEASES (TEXT) };
	return release < SLUICE_RELEASE_COUNT ? texts[release] : "?";
}

struct sluice_control *
sluice_control_create (uint32_t capacity)
{
	struct sluice_control *c = calloc (1, sizeof *c);
	if (!c)
		return NULL;
	c->capacity = capacity;
	c->workspace = sluice_workspace_create ();
	c->ranked = calloc ((size_t)capacity + 1, sizeof *c->ranked);
	c->strays = calloc ((size_t)capacity + 1, sizeof *c->strays);
	c->places = calloc ((size_t)capacity + 1, sizeof *c->places);
	c->order = calloc ((size_t)capacity + 1, sizeof *c->order);
	c->kinds = calloc ((size_t)capacity + 1, sizeof *c->kinds);
	for (c->slot_count = 2; c->slot_count / 2 < capacity; c->slot_count *= 2)
		;
	c->slots = calloc (c->slot_count, sizeof *c->slots);
	c->guesses = calloc ((size_t)capacity + 1, sizeof *c->guesses);
	c->runners = calloc ((size_t)capacity + 1, sizeof *c->runners);
	c->listed = calloc ((size_t)capacity + 1, sizeof *c->listed);
	c->actions = calloc ((size_t)capacity + 1, sizeof *c->actions);
	c->members = calloc ((size_t)capacity + 1, sizeof *c->members);
	c->chosen = calloc (2 * (size_t)capacity + FILLED, sizeof *c->chosen);
	c->loads = calloc ((size_t)capacity + 1, sizeof *c->loads);
	if (c->workspace && c->ranked && c->strays && c->places && c->order && c->kinds
	    && c->slots && c->guesses && c->runners && c->listed && c->actions && c->members
	    && c->chosen && c->loads)
		return c;
	sluice_control_destroy (c);
	return NULL;
}

void
sluice_control_destroy (struct sluice_control *c)
{
	if (!c)
		return;
	free (c->loads);
	free (c->chosen);
	free (c->members);
	free (c->actions);
	free (c->listed);
	free (c->runners);
	free (c->guesses);
	free (c->slots);
	free (c->kinds);
	free (c->order);
	free (c->places);
	free (c->strays);
	free (c->ranked);
	sluice_workspace_destroy (c->workspace);
	free (c);
}

static int
is_pending (const struct sluice_control_job *job)
{
	return job->state == SLUICE_CONTROL_WAITS || job->state == SLUICE_CONTROL_LATER;
}

static int
wants_tokens (const struct sluice_control_job *job)
{
	return job->state == SLUICE_CONTROL_WAITS && job->tokens.lane_mask;
}

/* Whether the loop vouches for its tokens: then they count in the gates. */
static int
counts (const struct sluice_control_job *job)
{
	const uint32_t all = SLUICE_CONTROL_GRANTED | SLUICE_CONTROL_PREDICTED;
	return job->tokens.lane_mask && (job->flags & all) == all;
}

static int
by_key (const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->job_id != b->job_id)
		return a->job_id < b->job_id ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static void
rank (struct sluice_control *c, uint32_t *count, double key,
      const struct sluice_control_job *jobs, uint32_t i)
{
	c->ranked[(*count)++] = (struct ranked){ key, jobs[i].job_id, i };
}

/* Sort what is nearly in order, as it mostly is from one poll to the next: those that are
 * not are taken out, sorted and merged again. */
static void
sort (struct sluice_control *c, uint32_t count)
{
	uint32_t kept = 0, strays = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct ranked next = c->ranked[i];
		if (kept > 0 && by_key (&c->ranked[kept - 1], &next) > 0) {
			if (kept > 1 && by_key (&c->ranked[kept - 2], &next) > 0) {
				c->strays[strays++] = next;
				continue;
			}
			c->strays[strays++]
			    = c->ranked[--kept]; /* this one is too far up */
		}
		c->ranked[kept++] = next;
	}
	qsort (c->strays, strays, sizeof *c->strays, by_key);
	while (strays > 0) {
		int is_last = kept == 0
			      || by_key (&c->ranked[kept - 1], &c->strays[strays - 1]) < 0;
		c->ranked[kept + strays - 1]
		    = is_last ? c->strays[strays - 1] : c->ranked[kept - 1];
		--*(is_last ? &strays : &kept);
	}
}

/* The least of a table over the lanes of these tokens. */
static uint32_t
least_of (const uint32_t table[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES],
	  const struct sluice_tokens *tokens)
{
	uint32_t least = UINT32_MAX;
	for (uint32_t lane = 0, mask = tokens->lane_mask; mask && lane < SLUICE_MAX_LANES;
	     lane++, mask >>= 1)
		if (mask & 1 && table[tokens->klass][lane] < least)
			least = table[tokens->klass][lane];
	return least;
}

/* Whether Slurm could give the job its tokens at once. */
static int
has_free_tokens (const struct sluice_control_job *job,
		 const struct sluice_control_facts *facts)
{
	return least_of (facts->free, &job->tokens) > 0;
}

/*
 * Room
 */

/* What a partition has left while Slurm goes through its queue. */
struct left {
	double nodes;
	double cpus;
};

static struct left
left_in (const struct sluice_control_room *room)
{
	return (struct left){ room->nodes, room->cpus };
}

static int
fits (const struct sluice_control_job *job, struct left left)
{
	return job->nodes <= left.nodes && job->cpus <= left.cpus;
}

/*
 * Whether Slurm started `other` out of turn: it ranks behind by now, and did when it
 * started. A priority grows with age while a job waits, and no more when it runs: an
 * older job ranked behind only if it is below what this one had from the beginning.
 */
static int
is_out_of_turn (const struct runner *other, const struct sluice_control_job *job)
{
	int is_younger
	    = other->eligible > job->eligible
	      || (other->eligible == job->eligible && other->job_id > job->job_id);
	if (other->priority == job->priority)
		return is_younger;
	return other->priority < job->priority
	       && (is_younger || other->priority < job->memory.priority);
}

static int
by_partition (const void *left, const void *right)
{
	const struct runner *a = left, *b = right;
	if (a->partition != b->partition)
		return a->partition < b->partition ? -1 : 1;
	return a->priority < b->priority ? -1 : a->priority > b->priority;
}

static void
sort_runners (struct sluice_control *c)
{
	qsort (c->runners, c->runner_count, sizeof *c->runners, by_partition);
	for (uint32_t i = 0; i < c->runner_count; i++) {
		const struct runner *before = &c->runners[i - (i > 0)];
		struct runner *runner = &c->runners[i];
		runner->latest = before->partition == runner->partition
					 && before->latest > runner->start
				     ? before->latest
				     : runner->start;
	}
}

/* The first running job behind those of a partition with less than a priority. */
static uint32_t
runner_from (const struct sluice_control *c, uint32_t partition, uint64_t priority)
{
	uint32_t first = 0, last = c->runner_count;
	while (first < last) {
		uint32_t middle = first + (last - first) / 2;
		const struct runner *runner = &c->runners[middle];
		if (runner->partition < partition
		    || (runner->partition == partition && runner->priority < priority))
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}

/* Whether the job fits with what jobs hold that overtook it since it became eligible: of
 * those that rank behind, if any has started since then. */
static int
could_have_fit (const struct sluice_control *c, const struct sluice_control_job *job,
		struct left left)
{
	uint32_t last = runner_from (c, job->partition, (uint64_t)job->priority + 1);
	if (job->eligible <= 0)
		return 0;
	for (; last > 0; last--) {
		const struct runner *other = &c->runners[last - 1];
		if (other->partition != job->partition || other->latest < job->eligible)
			break;
		if (other->start < job->eligible || !is_out_of_turn (other, job))
			continue;
		left.nodes += other->nodes;
		left.cpus += other->cpus;
		if (fits (job, left))
			return 1;
	}
	return 0;
}

static int
lacks_tokens (const struct sluice_control_job *job,
	      const struct sluice_control_facts *facts)
{
	return job->tokens.lane_mask && !has_free_tokens (job, facts);
}

/* Whether Slurm is about to start it. One that fits and does not start needs something
 * that nobody counts here. */
static int
starts_soon (struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	struct sluice_control_memory *memory = &job->memory;
	if (memory->fits <= 0.0)
		memory->fits = facts->clock;
	return job->flags & SLUICE_CONTROL_QUEUES && !lacks_tokens (job, facts)
	       && facts->clock - memory->fits < SLUICE_CONTROL_START;
}

static void
judge_room (const struct sluice_control *c, struct sluice_control_job *job,
	    struct left *left, const struct sluice_control_facts *facts)
{
	if (fits (job, *left)) {
		job->flags |= SLUICE_CONTROL_ROOM;
		if (starts_soon (job, facts)) {
			left->nodes -= job->nodes;
			left->cpus -= job->cpus;
		}
		return;
	}
	job->memory.fits = 0.0;
	if (lacks_tokens (job, facts) && could_have_fit (c, job, *left))
		job->flags |= SLUICE_CONTROL_ROOM;
}

enum { AHEAD = 16 }; /* what is fetched before its turn: it lies anywhere in memory */

static void
judge_partition (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t first,
		 uint32_t last, struct left left, const struct sluice_control_facts *facts)
{
	for (uint32_t i = first; i < last; i++) {
		if (i + AHEAD < last)
			__builtin_prefetch (&jobs[c->ranked[i + AHEAD].index].nodes, 1);
		judge_room (c, &jobs[c->ranked[i].index], &left, facts);
	}
}

/* A key that sorts by partition, then by falling priority. */
static double
place_of (const struct sluice_control_job *job)
{
	return (double)job->partition * 4294967296.0 + (double)(UINT32_MAX - job->priority);
}

static uint32_t
partition_at (double place)
{
	return (uint32_t)(place / 4294967296.0);
}

enum { NO_PLACE = -1 };

/* Rank the jobs that have a place, `most` of n, beginning with the order of the last poll.
 */
static uint32_t
rank_places (struct sluice_control *c, uint32_t n, uint32_t most)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < c->order_count; k++) {
		if (k + AHEAD < c->order_count)
			__builtin_prefetch (&c->places[c->order[k + AHEAD]], 1);
		if (c->order[k] >= n || c->places[c->order[k]].key == NO_PLACE)
			continue;
		c->ranked[count++] = c->places[c->order[k]];
		c->places[c->order[k]].key = NO_PLACE;
	}
	for (uint32_t i = 0; i < n && count < most; i++)
		if (c->places[i].key != NO_PLACE)
			c->ranked[count++] = c->places[i];
	sort (c, count);
	for (uint32_t k = 0; k < count; k++)
		c->order[k] = c->ranked[k].index;
	c->order_count = count;
	return count;
}

/* Take up a waiting job before anybody has started; whether it takes part in the queue for
 * room. What does not fit now does not fit later in the queue either: it is listed if it
 * may have been overtaken, and else has no room. */
static int
enter (struct sluice_control *c, struct sluice_control_job *job, uint32_t i,
       const struct sluice_control_room *rooms, uint32_t room_count,
       const struct sluice_control_facts *facts)
{
	if (job->flags & SLUICE_CONTROL_ANYWHERE || job->partition >= room_count
	    || rooms[job->partition].is_unlimited) {
		job->flags |= SLUICE_CONTROL_ROOM;
		return 0;
	}
	if (fits (job, left_in (&rooms[job->partition])))
		return 1;
	job->memory.fits = 0.0;
	if (lacks_tokens (job, facts))
		c->listed[c->listed_count++] = i;
	return 0;
}

static int
is_room_needed (const struct sluice_control_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (wants_tokens (&jobs[i]))
			return 1;
	return 0;
}

static void
take_runner (struct sluice_control *c, const struct sluice_control_job *job)
{
	c->runners[c->runner_count++] = (struct runner){
		.partition = job->partition,
		.priority = job->priority,
		.job_id = job->job_id,
		.nodes = job->nodes,
		.cpus = job->cpus,
		.eligible = job->eligible,
		.start = job->start,
	};
}

void
sluice_control_room (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n,
		     const struct sluice_control_room *rooms, uint32_t room_count,
		     const struct sluice_control_facts *facts)
{
	int is_needed = is_room_needed (jobs, n);
	uint32_t count = 0;

	c->runner_count = c->listed_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct sluice_control_job *job = &jobs[i];
		int enters = 0;
		job->flags &= ~(uint32_t)SLUICE_CONTROL_ROOM;
		if (job->memory.priority == 0)
			job->memory.priority = job->priority;
		if (job->state == SLUICE_CONTROL_RUNS)
			take_runner (c, job);
		if (job->state != SLUICE_CONTROL_WAITS)
			job->memory.fits = 0.0;
		else if (is_needed)
			enters = enter (c, job, i, rooms, room_count, facts);
		c->places[i]
		    = (struct ranked){ enters ? place_of (job) : NO_PLACE, job->job_id, i };
		count += (uint32_t)enters;
	}
	sort_runners (c);
	for (uint32_t k = 0; k < c->listed_count; k++) {
		struct sluice_control_job *job = &jobs[c->listed[k]];
		if (!could_have_fit (c, job, left_in (&rooms[job->partition])))
			continue;
		c->places[c->listed[k]].key = place_of (job);
		count++;
	}
	if (count == 0)
		return;
	count = rank_places (c, n, count);
	for (uint32_t first = 0, last; first < count; first = last) {
		uint32_t partition = partition_at (c->ranked[first].key);
		for (last = first + 1; last < count; last++)
			if (partition_at (c->ranked[last].key) != partition)
				break;
		judge_partition (c, jobs, first, last, left_in (&rooms[partition]), facts);
	}
}

/*
 * The bound
 */

/* Whether its tokens, and not Slurm, may keep it. */
static int
is_charged (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	return wants_tokens (job) && job->flags & SLUICE_CONTROL_ROOM
	       && !has_free_tokens (job, facts);
}

/* Seconds for which it may have waited since the last poll. A job that is new to us may
 * have waited all the time since it became eligible. */
static double
interval_of (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	if (job->memory.since > 0.0)
		return larger (0.0, facts->clock - job->memory.polled);
	return job->eligible > 0 && facts->now > job->eligible
		   ? (double)(facts->now - job->eligible)
		   : 0.0;
}

/* The hours up to this one begin without waits. */
static void
turn_to (struct sluice_control_payer *payer, int64_t hour)
{
	if (hour - payer->hour >= SLUICE_CONTROL_HOURS)
		payer->hour = hour - SLUICE_CONTROL_HOURS;
	while (payer->hour < hour)
		payer->waited[++payer->hour % SLUICE_CONTROL_HOURS] = 0.0;
}

static int64_t
hour_of (int64_t now)
{
	return now > 0 ? now / 3600 : 0;
}

void
sluice_control_pay (struct sluice_control_payer *payer, int64_t now, double seconds)
{
	turn_to (payer, hour_of (now));
	payer->waited[payer->hour % SLUICE_CONTROL_HOURS] += seconds;
}

double
sluice_control_paid (const struct sluice_control_payer *payer, int64_t now)
{
	int64_t first = hour_of (now) - SLUICE_CONTROL_HOURS + 1;
	double sum = 0.0;
	for (int64_t i = 0; i < SLUICE_CONTROL_HOURS; i++) {
		int64_t hour = payer->hour - i;
		if (hour >= 0 && hour >= first)
			sum += payer->waited[hour % SLUICE_CONTROL_HOURS];
	}
	return sum;
}

static void
pay (struct sluice_control_job *job, double seconds,
     const struct sluice_control_facts *facts)
{
	job->memory.paid += seconds;
	if (!facts->payers)
		return;
	if (job->user)
		sluice_control_pay (&facts->payers[job->user], facts->now, seconds);
	if (job->account)
		sluice_control_pay (&facts->payers[job->account], facts->now, seconds);
}

static double
left_of (uint32_t payer, double budget, const struct sluice_control_facts *facts)
{
	if (budget <= 0.0 || payer == 0 || !facts->payers)
		return INFINITY;
	return larger (0.0,
		       budget - sluice_control_paid (&facts->payers[payer], facts->now));
}

double
sluice_control_budget_left (const struct sluice_control_job *job,
			    const struct sluice_control_facts *facts)
{
	return smaller (left_of (job->user, facts->user_budget, facts),
			left_of (job->account, facts->account_budget, facts));
}

/* Whether it was charged. */
static int
charge (struct sluice_control_job *job, struct sluice_control_facts *facts)
{
	struct sluice_control_memory *memory = &job->memory;
	int is_new = memory->since <= 0.0, is_due = is_charged (job, facts);
	if (is_due) {
		double seconds = interval_of (job, facts);
		memory->waited += seconds;
		facts->charged += seconds;
		if (!is_new)
			pay (job, seconds, facts);
	}
	if (is_new)
		memory->since = facts->clock;
	memory->polled = facts->clock;
	return is_due;
}

static uint32_t
release_of_stranger (const struct sluice_control_job *job,
		     const struct sluice_control_facts *facts)
{
	if (job->flags & SLUICE_CONTROL_RECORDED)
		return SLUICE_RELEASE_FOREIGN;
	return facts->clock - job->memory.since >= SLUICE_CONTROL_PATIENCE
		   ? SLUICE_RELEASE_UNKNOWN
		   : SLUICE_RELEASE_NONE;
}

/* Those who have waited enough for others wait no more: where the tokens of a job would
 * keep it now, it is released. */
static uint32_t
release_by_budget (const struct sluice_control_job *job,
		   const struct sluice_control_facts *facts)
{
	if (!is_charged (job, facts))
		return SLUICE_RELEASE_NONE;
	if (left_of (job->user, facts->user_budget, facts) <= 0.0)
		return SLUICE_RELEASE_USER_BUDGET;
	if (left_of (job->account, facts->account_budget, facts) <= 0.0)
		return SLUICE_RELEASE_ACCOUNT_BUDGET;
	return SLUICE_RELEASE_NONE;
}

static uint32_t
release_due (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	/* licences of these names that are not defined as tokens belong to the site */
	if (least_of (facts->totals, &job->tokens) < SLUICE_MIN_TOTAL)
		return is_pending (job) && job->flags & SLUICE_CONTROL_GRANTED
			   ? SLUICE_RELEASE_UNDEFINED
			   : SLUICE_RELEASE_NONE;
	if (is_pending (job) && facts->is_off)
		return SLUICE_RELEASE_SWITCHED_OFF;
	if (!(job->flags & SLUICE_CONTROL_GRANTED))
		return release_of_stranger (job, facts);
	if (is_pending (job) && job->flags & SLUICE_CONTROL_SPARED)
		return SLUICE_RELEASE_MODE;
	/* also with MaxDelay=0 a job has its lanes where nothing keeps it waiting */
	if (job->state == SLUICE_CONTROL_WAITS && job->memory.waited > 0.0
	    && job->memory.waited >= facts->max_delay)
		return SLUICE_RELEASE_MAX_DELAY;
	return release_by_budget (job, facts);
}

static void
act (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t i, uint32_t action)
{
	jobs[i].verdict.action = action;
	c->actions[c->action_count++] = i;
}

/* Command a release; while it shows no effect it is tried again, ever more seldom. */
static void
command (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t i,
	 struct sluice_control_facts *facts)
{
	struct sluice_control_job *job = &jobs[i];
	struct sluice_control_memory *memory = &job->memory;
	double pause = memory->tries < 6 ? (double)(1u << memory->tries) : 64.0;

	act (c, jobs, i, SLUICE_VERDICT_RELEASE);
	memory->tries++;
	memory->retry = facts->clock + smaller (pause, SLUICE_CONTROL_RETRY);
	facts->releases--;
}

/* Release the ranked ones, as many as may be commanded. */
static void
command_ranked (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t count,
		struct sluice_control_facts *facts)
{
	sort (c, count);
	for (uint32_t i = 0; i < count && facts->releases > 0; i++)
		command (c, jobs, c->ranked[i].index, facts);
}

/* A key that sorts by attempts, then by falling waits. */
static double
urgency_of (const struct sluice_control_job *job)
{
	return (double)job->memory.tries * 1e9 - smaller (job->memory.waited, 1e8);
}

/* It is due; rank it unless its last release is still to show. */
static void
release_when_due (struct sluice_control *c, uint32_t *count,
		  struct sluice_control_job *jobs, uint32_t i, uint32_t release,
		  const struct sluice_control_facts *facts)
{
	jobs[i].verdict.release = release;
	if (facts->clock >= jobs[i].memory.retry)
		rank (c, count, urgency_of (&jobs[i]), jobs, i);
}

static void
release_if_due (struct sluice_control *c, uint32_t *count, struct sluice_control_job *jobs,
		uint32_t i, const struct sluice_control_facts *facts)
{
	uint32_t release = release_due (&jobs[i], facts);
	if (release != SLUICE_RELEASE_NONE)
		release_when_due (c, count, jobs, i, release, facts);
}

void
sluice_control_bound (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n,
		      struct sluice_control_facts *facts)
{
	int has_budgets = facts->user_budget > 0.0 || facts->account_budget > 0.0;
	uint32_t count = 0;

	facts->charged = facts->longest = 0.0;
	c->action_count = c->listed_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct sluice_control_job *job = &jobs[i];
		memset (&job->verdict, 0, sizeof job->verdict);
		if (job->state == SLUICE_CONTROL_ABSENT)
			continue;
		int pays = charge (job, facts);
		if (!job->tokens.lane_mask) {
			job->memory.tries = 0;
			job->memory.retry = 0.0;
			continue;
		}
		facts->longest = larger (facts->longest, job->memory.waited);
		if (pays && has_budgets)
			c->listed[c->listed_count++] = i;
		else
			release_if_due (c, &count, jobs, i, facts);
	}
	/* once all have paid: who comes first shall make no difference to a budget */
	for (uint32_t k = 0; k < c->listed_count; k++)
		release_if_due (c, &count, jobs, c->listed[k], facts);
	command_ranked (c, jobs, count, facts);
}

/*
 * Decided again
 */

static int
is_near (const struct sluice_control_job *job)
{
	return wants_tokens (job) && job->flags & SLUICE_CONTROL_GRANTED
	       && job->flags & (SLUICE_CONTROL_NEXT | SLUICE_CONTROL_ROOM);
}

/* Whether the latest decision still holds. */
static int
is_decided (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	const struct sluice_control_memory *m = &job->memory;
	return m->decided > 0.0 && m->version == facts->version
	       && facts->clock - m->decided < SLUICE_CONTROL_STALE
	       && (!m->waits || facts->clock < m->again);
}

/* Reasons by which waiting costs more than it saves. */
static int
should_share (uint32_t reason)
{
	return reason == SLUICE_REASON_HARMLESS || reason == SLUICE_REASON_SHARING_CHEAPEST
	       || reason == SLUICE_REASON_MARGIN || reason == SLUICE_REASON_TURNS_PAY;
}

/* Reasons to abstain that say nothing of the job. */
static int
says_nothing (uint32_t reason)
{
	return reason == SLUICE_REASON_NO_BUNDLE || reason == SLUICE_REASON_NO_SNAPSHOT
	       || reason == SLUICE_REASON_STALE_SNAPSHOT
	       || reason == SLUICE_REASON_SWITCHED_OFF;
}

/* An array changes lanes as a whole, and not while tasks of it write. */
static int
runs_already (const struct sluice_control_job *jobs, uint32_t n, uint32_t array_id)
{
	for (uint32_t i = 0; array_id && i < n; i++)
		if (jobs[i].state == SLUICE_CONTROL_RUNS && jobs[i].array_id == array_id)
			return 1;
	return 0;
}

static void
take_up (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n, uint32_t i,
	 const struct sluice_record *record, const struct sluice_policy *policy,
	 const struct sluice_control_facts *facts)
{
	struct sluice_control_job *job = &jobs[i];
	struct sluice_control_memory *memory = &job->memory;
	const struct sluice_decision *decision = &record->decision;
	const struct sluice_tokens *wanted = &record->grant.tokens;

	memory->decided = facts->clock;
	memory->version = facts->version;
	memory->reason = decision->reason;
	memory->waits = decision->action == SLUICE_ACTION_DELAY;
	memory->again = facts->clock + decision->wait;
	if (job->verdict.release != SLUICE_RELEASE_NONE)
		return;
	if (wanted->lane_mask == 0) {
		if (!says_nothing (decision->reason))
			job->verdict.release = SLUICE_RELEASE_LEFT;
	} else if (record->grant.outcome == SLUICE_GRANT_TAKEN
		   && memory->moves < SLUICE_CONTROL_MOVES
		   && sluice_tokens_exchange (policy, &job->tokens, decision)
		   && !runs_already (jobs, n, job->array_id)) {
		act (c, jobs, i, SLUICE_VERDICT_EXCHANGE);
		job->verdict.tokens = *wanted;
		memory->moves++;
	}
}

static const struct sluice_record *
decide (struct sluice_control *c, uint32_t job, const struct sluice_submission *submission,
	const struct sluice_situation *situation, const struct sluice_config *config,
	struct sluice_control_facts *facts)
{
	struct sluice_control_decision *made = &c->decisions[c->decision_count++];
	struct sluice_record *record = &made->record;
	struct sluice_tokens tokens;

	memset (made, 0, sizeof *made);
	made->job = job;
	record->boot = facts->boot;
	record->number = ++facts->number;
	record->now = facts->now;
	record->config_checksum = facts->config_checksum;
	memcpy (record->cluster, facts->cluster, sizeof record->cluster);
	record->submission = *submission;
	sluice_record_decide (c->workspace, situation, config, record);
	sluice_tokens_of (situation->policy, &record->decision, &tokens);
	sluice_tokens_grant (record->mode, record->turns, situation->policy, submission,
			     &record->decision, facts->totals[tokens.klass],
			     &record->grant);
	return record;
}

/* Rank those of the listed jobs whose latest decision does not hold, those first that were
 * decided on longest ago. */
static uint32_t
rank_undecided (struct sluice_control *c, const struct sluice_control_job *jobs,
		const struct sluice_submission *const *submissions,
		const struct sluice_control_facts *facts)
{
	uint32_t count = 0;
	for (uint32_t k = 0; k < c->listed_count; k++) {
		uint32_t i = c->listed[k];
		if ((!submissions || submissions[i]) && !is_decided (&jobs[i], facts))
			rank (c, &count, jobs[i].memory.decided, jobs, i);
	}
	sort (c, count);
	return count < SLUICE_CONTROL_DECISIONS ? count : SLUICE_CONTROL_DECISIONS;
}

uint32_t
sluice_control_undecided (struct sluice_control *c, const struct sluice_control_job *jobs,
			  uint32_t n, const struct sluice_control_facts *facts,
			  uint32_t out[SLUICE_CONTROL_DECISIONS])
{
	c->listed_count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (is_near (&jobs[i]))
			c->listed[c->listed_count++] = i;
	uint32_t count = rank_undecided (c, jobs, NULL, facts);
	for (uint32_t k = 0; k < count; k++)
		out[k] = c->ranked[k].index;
	return count;
}

static void
decide_again (struct sluice_control *c, struct sluice_control_job *jobs,
	      const struct sluice_submission *const *submissions, uint32_t n,
	      const struct sluice_situation *situation, const struct sluice_config *config,
	      struct sluice_control_facts *facts)
{
	uint32_t count = rank_undecided (c, jobs, submissions, facts);

	c->decision_count = 0;
	for (uint32_t k = 0; k < count; k++) {
		uint32_t i = c->ranked[k].index;
		take_up (c, jobs, n, i,
			 decide (c, i, submissions[i], situation, config, facts),
			 situation->policy, facts);
	}
}

/*
 * The gates
 */

/* How hard a job presses where its lanes are slow: it fills them sooner. That jobs are
 * slow there is not for the tolerance to judge. */
static void
press (const struct sluice_control_job *job, const struct sluice_situation *situation,
       struct sluice_pressure *out)
{
	double slowest = 1.0;
	for (uint32_t lane = 0; lane < situation->policy->lane_count; lane++)
		if (job->tokens.lane_mask >> lane & 1)
			slowest = smaller (slowest, situation->speeds[lane]);
	*out = job->pressure;
	if (slowest < 1.0) {
		struct sluice_pressure slowed = job->pressure;
		sluice_pressure_slow_down (&slowed, slowest);
		out->demand = slowed.demand;
	}
}

/* Whether a job with tokens is too slow on its lanes even alone. */
static int
is_confined (const struct sluice_control_job *job, const struct sluice_policy *policy)
{
	return sluice_job_slowdown (&job->pressure, 1.0) > policy->tolerance;
}

/* Whether the gates cannot tell two jobs with tokens apart. */
static int
are_alike (const struct sluice_control_job *a, const struct sluice_control_job *b)
{
	return memcmp (&a->tokens, &b->tokens, sizeof a->tokens) == 0
	       && memcmp (&a->pressure, &b->pressure, sizeof a->pressure) == 0;
}

static uint32_t
find_kind (struct sluice_control *c, const struct sluice_control_job *jobs, uint32_t i,
	   const struct sluice_policy *policy)
{
	uint64_t hash = sluice_hash_bytes (&jobs[i].pressure, sizeof jobs[i].pressure, 0);
	hash = sluice_hash_bytes (&jobs[i].tokens, sizeof jobs[i].tokens, hash);
	uint32_t *slot;
	for (;; hash++) {
		slot = &c->slots[hash & (c->slot_count - 1)];
		if (*slot == 0)
			break;
		if (are_alike (&jobs[c->kinds[*slot - 1].first], &jobs[i]))
			return *slot - 1;
	}
	c->kinds[c->kind_count] = (struct kind){ .first = i };
	c->is_confined |= is_confined (&jobs[i], policy);
	*slot = ++c->kind_count;
	return *slot - 1;
}

/* Jobs mostly are of the kind that they were of; to compare is faster than to search. */
static struct kind *
kind_of (struct sluice_control *c, const struct sluice_control_job *jobs, uint32_t i,
	 const struct sluice_policy *policy)
{
	uint32_t guess = c->guesses[i];
	if (guess >= c->kind_count || !are_alike (&jobs[c->kinds[guess].first], &jobs[i]))
		c->guesses[i] = guess = find_kind (c, jobs, i, policy);
	return &c->kinds[guess];
}

static void
count_waiting (struct kind *kind, const struct sluice_control_job *job)
{
	for (int has_room = 0; has_room < 2; has_room++) {
		if (has_room && !(job->flags & SLUICE_CONTROL_ROOM))
			break;
		kind->waiting[has_room] += job->tasks;
		kind->need[has_room] += job->memory.waits ? 0 : job->tasks;
	}
}

/* Take up the kind of a job with tokens, or the load of a running job that no token stands
 * for. */
static void
count (struct sluice_control *c, const struct sluice_control_job *jobs, uint32_t i,
       const struct sluice_policy *policy)
{
	const struct sluice_control_job *job = &jobs[i];
	int runs = job->state == SLUICE_CONTROL_RUNS;
	if (counts (job)) {
		struct kind *kind = kind_of (c, jobs, i, policy);
		if (runs)
			kind->running++;
		else if (job->state == SLUICE_CONTROL_WAITS)
			count_waiting (kind, job);
	} else if (runs && job->flags & SLUICE_CONTROL_PREDICTED
		   && job->tokens.klass != SLUICE_CLASS_NONE) {
		c->loads[c->load_count++] = &job->pressure;
	}
}

/* Go through the queue once: list the jobs near their start, which may be decided on before
 * they count, and count all others. */
static void
survey (struct sluice_control *c, const struct sluice_control_job *jobs, uint32_t n,
	const struct sluice_policy *policy)
{
	memset (c->slots, 0, c->slot_count * sizeof *c->slots);
	c->kind_count = c->load_count = c->listed_count = 0;
	c->is_confined = 0;
	for (uint32_t i = 0; i < n; i++)
		if (is_near (&jobs[i]))
			c->listed[c->listed_count++] = i;
		else if (jobs[i].state != SLUICE_CONTROL_ABSENT)
			count (c, jobs, i, policy);
}

static int
by_kind (const void *left, const void *right)
{
	const struct sluice_member *a = left, *b = right;
	if (a->klass != b->klass)
		return a->klass < b->klass ? -1 : 1;
	return memcmp (&a->pressure, &b->pressure, sizeof a->pressure);
}

/*
 * Enough jobs to stand for all that wait: the worst case depends on which kinds wait, on
 * whether a kind can meet itself, and on how many of a class there are, up to the limit.
 * members are sorted by kind, job_id holding how many each stands for. Kinds are put down
 * twice at most, and the classes are filled up from the first kind on.
 */
static uint32_t
represent (struct sluice_member *members, uint32_t n, struct sluice_member *out)
{
	uint32_t in_class[SLUICE_CLASS_COUNT] = { 0 }, count = 0;

	for (int filling = 0; filling < 2; filling++)
		for (uint32_t first = 0, last; first < n; first = last) {
			uint32_t waiting = 0, klass = members[first].klass;
			for (last = first; last < n; last++) {
				if (by_kind (&members[first], &members[last]) != 0)
					break;
				waiting += members[last].job_id;
			}
			uint32_t put = waiting < 2 ? waiting : 2;
			if (filling) {
				uint32_t room = in_class[klass] < SLUICE_CONTROL_LIMIT
						    ? SLUICE_CONTROL_LIMIT - in_class[klass]
						    : 0;
				put = waiting - put < room ? waiting - put : room;
			}
			in_class[klass] += put;
			for (; put > 0; put--) {
				out[count] = members[first];
				out[count++].job_id = 0;
			}
		}
	return count;
}

static int
by_strength (const void *left, const void *right)
{
	const struct sluice_pressure *a = *(const struct sluice_pressure *const *)left;
	const struct sluice_pressure *b = *(const struct sluice_pressure *const *)right;
	return sluice_pressure_is_stronger (b, a) - sluice_pressure_is_stronger (a, b);
}

/* Running jobs whose load no token stands for: the heaviest, and the rest as one. */
static uint32_t
gather_background (struct sluice_control *c, double z, struct sluice_pressure *out)
{
	uint32_t found = c->load_count, kept;

	qsort (c->loads, found, sizeof *c->loads, by_strength);
	kept = found < SLUICE_CONTROL_BACKGROUND ? found : SLUICE_CONTROL_BACKGROUND;
	for (uint32_t i = 0; i < kept; i++)
		out[i] = *c->loads[i];
	if (found == kept)
		return kept;
	sluice_pressure_merge (c->loads + kept, found - kept, z, &out[kept]);
	return kept + 1;
}

static int
is_on (const struct sluice_control_job *jobs, const struct kind *kind, uint32_t lane)
{
	return jobs[kind->first].tokens.lane_mask >> lane & 1;
}

/*
 * Jobs that a lane's tokens are let out for: those that could start now, but for their
 * tokens; where there are none, all that are eligible, so that one finds its token when a
 * node becomes free. A job that lacks nodes as well must keep nobody from a token.
 */
static int
who_is_served (const struct sluice_control *c, const struct sluice_control_job *jobs,
	       uint32_t lane)
{
	for (uint32_t k = 0; k < c->kind_count; k++)
		if (is_on (jobs, &c->kinds[k], lane) && c->kinds[k].need[1] > 0)
			return 1;
	return 0;
}

/* Running and waiting jobs with tokens of a lane, behind each other in members; those that
 * wait once a kind, job_id holding how many they are. */
static void
gather_members (struct sluice_control *c, const struct sluice_control_job *jobs,
		const struct sluice_situation *situation, uint32_t lane, uint32_t *running,
		uint32_t *waiting)
{
	int served = who_is_served (c, jobs, lane);

	*running = *waiting = 0;
	for (int pending = 0; pending < 2; pending++)
		for (uint32_t k = 0; k < c->kind_count; k++) {
			const struct kind *kind = &c->kinds[k];
			uint32_t put = pending ? kind->waiting[served] > 0 : kind->running;
			struct sluice_member member
			    = { .klass = jobs[kind->first].tokens.klass };
			if (put == 0 || !is_on (jobs, kind, lane))
				continue;
			member.job_id = pending ? kind->waiting[served] : 0;
			press (&jobs[kind->first], situation, &member.pressure);
			for (; put > 0; put--, ++*(pending ? waiting : running))
				c->members[*running + *waiting] = member;
		}
	qsort (c->members, *running, sizeof *c->members, by_kind);
	qsort (c->members + *running, *waiting, sizeof *c->members, by_kind);
}

static uint64_t
hash_more (uint64_t hash, const void *bytes, size_t size)
{
	return sluice_hash_bytes (bytes, size, hash);
}

/* Ask the core about a lane, unless it was asked the same at the last poll. */
static void
size_lane (struct sluice_control *c, const struct sluice_control_job *jobs,
	   const struct sluice_situation *situation, uint32_t lane,
	   const struct sluice_pressure *background, uint32_t n_background)
{
	struct answer *answer = &c->answers[lane];
	uint32_t running, waiting;
	gather_members (c, jobs, situation, lane, &running, &waiting);
	memcpy (c->chosen, c->members, running * sizeof *c->members);
	waiting = represent (c->members + running, waiting, c->chosen + running);

	uint32_t counts_of[3] = { running, waiting, n_background };
	uint64_t hash = sluice_bundle_checksum (situation->bundle);
	hash = hash_more (hash, counts_of, sizeof counts_of);
	hash = hash_more (hash, c->chosen, (running + waiting) * sizeof *c->chosen);
	hash = hash_more (hash, background, n_background * sizeof *background);
	if (hash == answer->question)
		return;
	answer->question = hash;
	sluice_gates_keep (c->chosen, running, waiting, background, n_background,
			   situation->model, situation->policy, SLUICE_CONTROL_LIMIT,
			   &answer->gates);
}

/* Tokens that are held, and that jobs may be let in for: no more are let out. */
static void
bound_by_need (const struct sluice_control *c, const struct sluice_control_job *jobs,
	       uint32_t lane, uint32_t need[SLUICE_CLASS_COUNT])
{
	int served = who_is_served (c, jobs, lane);
	for (uint32_t k = 0; k < c->kind_count; k++)
		if (is_on (jobs, &c->kinds[k], lane))
			need[jobs[c->kinds[k].first].tokens.klass]
			    += c->kinds[k].running + c->kinds[k].need[served];
}

static void
size_gates (struct sluice_control *c, const struct sluice_control_job *jobs,
	    const struct sluice_situation *situation, struct sluice_control_gates *out)
{
	struct sluice_pressure background[SLUICE_CONTROL_BACKGROUND + 1];
	uint32_t n_background = gather_background (c, situation->z, background);

	for (uint32_t lane = 0; lane < situation->lane_count; lane++) {
		uint32_t need[SLUICE_CLASS_COUNT] = { 0 };
		size_lane (c, jobs, situation, lane, background, n_background);
		bound_by_need (c, jobs, lane, need);
		for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
			uint32_t most = c->answers[lane].gates.tokens[k];
			out->tokens[k][lane] = most < need[k] ? most : need[k];
		}
	}
}

/* A gate behind which somebody has waited beyond the bound is given up: whatever keeps
 * that job from being released, the gate keeps nobody. */
static void
give_up_gates (const struct sluice_control_job *jobs, uint32_t n,
	       const struct sluice_control_facts *facts, struct sluice_control_gates *out)
{
	double latest = facts->max_delay + facts->grace;
	for (uint32_t i = 0; facts->longest >= latest && i < n; i++) {
		const struct sluice_control_job *job = &jobs[i];
		if (!wants_tokens (job) || job->memory.waited < latest)
			continue;
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
			if (job->tokens.lane_mask >> lane & 1)
				out->is_given_up[job->tokens.klass][lane] = 1;
	}
}

/*
 * Releases by what was decided
 */

/* Tokens that are held, or wanted by those that they are let out for. */
static void
count_wanted (const struct sluice_control *c, const struct sluice_control_job *jobs,
	      uint32_t wanted[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES])
{
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++) {
		int served = who_is_served (c, jobs, lane);
		for (uint32_t k = 0; k < c->kind_count; k++)
			if (is_on (jobs, &c->kinds[k], lane))
				wanted[jobs[c->kinds[k].first].tokens.klass][lane]
				    += c->kinds[k].running + c->kinds[k].waiting[served];
	}
}

static int
is_shut_out (const struct sluice_control_job *job, const struct sluice_control_gates *gates,
	     const uint32_t wanted[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES])
{
	uint32_t k = job->tokens.klass;
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
		if (job->tokens.lane_mask >> lane & 1
		    && gates->tokens[k][lane] < wanted[k][lane])
			return 1;
	return 0;
}

/* Whether the job that was released last to share is still to start. */
static int
is_sharing_settled (const struct sluice_control_job *jobs, uint32_t n,
		    const struct sluice_control_facts *facts)
{
	if (facts->shared <= 0.0 || facts->clock - facts->shared >= SLUICE_CONTROL_START)
		return 1;
	for (uint32_t i = 0; i < n; i++)
		if (jobs[i].job_id == facts->sharing && is_pending (&jobs[i]))
			return 0;
	return 1;
}

static int
comes_before (const struct sluice_control_job *a, const struct sluice_control_job *b)
{
	if (a->memory.tries != b->memory.tries)
		return a->memory.tries < b->memory.tries;
	return a->submit != b->submit ? a->submit < b->submit : a->job_id < b->job_id;
}

/* The first submitted of the jobs that had better share than wait for a shut gate. One at
 * a time, so that the next decision knows of it; no array, whose tasks would all start.
 * One whose release was in vain keeps no other. */
static struct sluice_control_job *
next_to_share (const struct sluice_control *c, struct sluice_control_job *jobs,
	       const struct sluice_control_facts *facts,
	       const struct sluice_control_gates *gates)
{
	uint32_t wanted[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES] = { 0 };
	struct sluice_control_job *first = NULL;

	count_wanted (c, jobs, wanted);
	for (uint32_t k = 0; k < c->listed_count; k++) {
		struct sluice_control_job *job = &jobs[c->listed[k]];
		if (!is_decided (job, facts) || job->verdict.action
		    || job->verdict.release != SLUICE_RELEASE_NONE
		    || facts->clock < job->memory.retry
		    || !should_share (job->memory.reason)
		    || job->flags & SLUICE_CONTROL_ARRAY
		    || !is_shut_out (job, gates, wanted))
			continue;
		if (!first || comes_before (job, first))
			first = job;
	}
	return first;
}

static void
release_by_decision (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n,
		     const struct sluice_policy *policy, struct sluice_control_facts *facts,
		     const struct sluice_control_gates *gates)
{
	uint32_t count = 0;

	if (facts->releases > 0 && is_sharing_settled (jobs, n, facts)) {
		struct sluice_control_job *job = next_to_share (c, jobs, facts, gates);
		if (job) {
			job->verdict.release = SLUICE_RELEASE_SHARING;
			facts->sharing = job->job_id;
			facts->shared = facts->clock;
		}
	}
	/* where no kind is confined, it is one of those that were decided on */
	for (uint32_t k = 0; k < (c->is_confined ? n : c->listed_count); k++) {
		uint32_t i = c->is_confined ? k : c->listed[k];
		struct sluice_control_job *job = &jobs[i];
		if (!job->tokens.lane_mask || !is_pending (job) || job->verdict.action)
			continue;
		if (job->verdict.release == SLUICE_RELEASE_NONE && counts (job)
		    && is_confined (job, policy))
			job->verdict.release = SLUICE_RELEASE_CONFINED;
		if (job->verdict.release >= SLUICE_RELEASE_CONFINED)
			release_when_due (c, &count, jobs, i, job->verdict.release, facts);
	}
	command_ranked (c, jobs, count, facts);
}

void
sluice_control_poll (struct sluice_control *c, struct sluice_control_job *jobs,
		     const struct sluice_submission *const *submissions, uint32_t n,
		     const struct sluice_situation *situation,
		     const struct sluice_config *config, struct sluice_control_facts *facts,
		     struct sluice_control_gates *out)
{
	memset (out, 0, sizeof *out);
	survey (c, jobs, n, situation->policy);
	decide_again (c, jobs, submissions, n, situation, config, facts);
	for (uint32_t k = 0; k < c->listed_count; k++)
		count (c, jobs, c->listed[k], situation->policy);
	size_gates (c, jobs, situation, out);
	release_by_decision (c, jobs, n, situation->policy, facts, out);
	give_up_gates (jobs, n, facts, out);
}

uint32_t
sluice_control_actions (const struct sluice_control *c, const uint32_t **jobs)
{
	*jobs = c->actions;
	return c->action_count;
}

static int
is_longer (const struct sluice_control_job *job, const struct sluice_holder *than)
{
	uint32_t waited = (uint32_t)smaller (ceil (job->memory.waited), UINT32_MAX);
	if (waited != than->waited)
		return waited > than->waited;
	return job->tokens.lane_mask > than->lane_mask;
}

uint32_t
sluice_control_holders (struct sluice_control *c, const struct sluice_control_job *jobs,
			uint32_t n, struct sluice_holder *out)
{
	uint32_t count = 0, found = 0;

	for (uint32_t i = 0; i < n; i++)
		if (jobs[i].state != SLUICE_CONTROL_ABSENT && jobs[i].tokens.lane_mask) {
			uint32_t array_id = jobs[i].array_id;
			rank (c, &count, array_id ? array_id : jobs[i].job_id, jobs, i);
		}
	sort (c, count);
	for (uint32_t k = 0; k < count; k++) {
		const struct sluice_control_job *job = &jobs[c->ranked[k].index];
		uint32_t id = (uint32_t)c->ranked[k].key;
		if (found > 0 && out[found - 1].job_id == id) {
			if (!is_longer (job, &out[found - 1]))
				continue;
			found--;
		}
		out[found++] = (struct sluice_holder){
			.job_id = id,
			.klass = job->tokens.klass,
			.lane_mask = job->tokens.lane_mask,
			.waited = (uint32_t)smaller (ceil (job->memory.waited), UINT32_MAX),
		};
	}
	return found;
}

uint32_t
sluice_control_decision_count (const struct sluice_control *c)
{
	return c->decision_count;
}

const struct sluice_control_decision *
sluice_control_decision (const struct sluice_control *c, uint32_t i)
{
	return &c->decisions[i];
}
