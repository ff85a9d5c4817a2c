/*
 * The coordinator's picture: agents' reports of parts of jobs, put together into bursts of
 * jobs, on which the core decides; and what each agent is told.
 *
 * No I/O, no clock: `clock` is in seconds, and never goes back. What agents report is
 * bounded in number here and in size by the frames; whatever it says, nothing breaks.
 *
 * Of volumes it knows what the job's own last burst was, else what its profile predicts; of
 * its demand what it got while nobody else wrote on its lanes, else the profile's rate,
 * else the most that it ever got. Of lanes it knows what they are said to do, and learns
 * from the speed of bursts what they do.
 */
#ifndef SLUICE_JOBS_H
#define SLUICE_JOBS_H

#include "snapshot.h"
#include "turns_check.h"
#include "wire.h"

enum {
	JOBS_MAX = 16384,
	JOBS_MAX_PARTS = 131072,
	JOBS_MAX_PARTS_OF_AGENT = 1024,
};

static const double jobs_silence = 3.0; /* s without a report after which a burst is over */

/* What decisions follow. The caller keeps it, and gives each its own number. */
struct jobs_rules {
	uint64_t number;
	int holds;  /* 0: decide and count, but let all go */
	int is_off; /* nobody is even thought of as held */
	struct sluice_turns_settings settings;
	struct sluice_turns_storage storage;
	const struct sluice_snapshot *snapshot; /* profiles of jobs; NULL: none */
	const struct sluice_policy *policy; /* whose lanes the storage has; NULL: none */
};

/* Begins the caller's struct for a connection; zero at first. */
struct jobs_agent {
	struct jobs_part *parts;
	uint32_t part_count;
	uint64_t echo; /* agent's clock of its newest report */
};

/* Tells an agent a word. */
typedef void jobs_say (void *speaker, struct jobs_agent *agent,
		       const struct wire_word *word);

/* X(name, meaning): since the start. */
#define JOBS_COUNTS(X)                                                                     \
	X (bursts, "bursts of jobs")                                                       \
	X (holds, "times that a burst was held or slowed down")                            \
	X (held_seconds, "s for which bursts were held")                                   \
	X (held_node_seconds, "the same times the nodes of each job")                      \
	X (budgets, "times that a burst went on because its budget was used up")           \
	X (trials, "times that a held burst went for a moment, to see whether holds help") \
	X (let_go, "times that a burst went on because holds were seen not to help")       \
	X (bytes, "bytes of writes that were seen")                                        \
	X (uncovered_bytes, "bytes known to have been written in ways that are not held")  \
	X (refused, "processes that found no room in their job's page")                    \
	X (silent, "bursts that ended because their node fell silent")                     \
	X (left_alone, "parts of jobs for which there was no room")

#define JOBS_COUNT(name, text) double name;
struct jobs_counts {
	JOBS_COUNTS (JOBS_COUNT)
};

/* A job that was held, for people. */
struct jobs_held {
	uint32_t job_id;
	uint32_t holds;
	uint32_t first; /* job that it was last held for; 0: none */
	double seconds;
	double since; /* clock of the first hold */
};

/* A burst that was held, when it has ended; clocks are of the coordinator. */
struct jobs_held_burst {
	uint32_t job_id, nodes;
	uint32_t first, first_nodes; /* job that it was last held for; 0: none */
	uint32_t lane_mask;	     /* 0: all */
	uint32_t holds;		     /* times */
	uint32_t is_held;	     /* 0: in observe, it would have been */
	const char *ended; /* why the last hold did: turn, budget, stretch, trial, no_help,
			    * off or burst */
	double began;
	double held;   /* s, slower ones in part */
	double bytes;  /* that it wrote */
	double saving; /* node-seconds that the first hold was to save; NAN: unknown */
};

/* Told of each. */
typedef void jobs_tell_held (void *listener, const struct jobs_held_burst *burst,
			     double clock);

struct jobs;

struct jobs *jobs_create (jobs_say *say, void *speaker);
void jobs_destroy (struct jobs *jobs);
void jobs_set_listener (struct jobs *jobs, jobs_tell_held *tell, void *listener);

void jobs_take (struct jobs *jobs, struct jobs_agent *agent,
		const struct wire_report *report, double clock);
/* The agent is gone, and what it reported. */
void jobs_drop (struct jobs *jobs, struct jobs_agent *agent, double clock);
/* Decide on all bursts and tell what changes. Returns the clock at which to decide again if
 * nothing is reported before. */
double jobs_decide (struct jobs *jobs, const struct jobs_rules *rules, double clock);
/* Whether something was reported that decisions depend on, since the last one. */
int jobs_have_changed (const struct jobs *jobs);

const struct jobs_counts *jobs_counts (const struct jobs *jobs);
uint32_t jobs_count (const struct jobs *jobs);
uint32_t jobs_active_count (const struct jobs *jobs);
uint32_t jobs_holding_count (const struct jobs *jobs);
/* The jobs that were held, up to n of them. */
uint32_t jobs_list_held (const struct jobs *jobs, struct jobs_held *out, uint32_t n);

/* A job in a burst. */
struct jobs_burst {
	uint32_t job_id, lane_mask;
	uint32_t first;	 /* job that it is held for; 0: none */
	uint32_t reason; /* of its verdict: enum sluice_turn_reason */
	double share;	 /* of full speed that it may have; 0: it is held */
	double since;	 /* clock of its last change between going and being held */
};
/* The bursts of now, up to n of them. */
uint32_t jobs_list_bursts (const struct jobs *jobs, struct jobs_burst *out, uint32_t n);

/* What the targets of a lane were learned to do, over its Bandwidth; 1: as it says. */
double jobs_lane_scale (const struct jobs *jobs, uint32_t lane);

/* A job with a page of which no write was seen yet. */
struct jobs_unseen {
	uint32_t job_id;
	double since; /* clock at which its first node reported */
};
uint32_t jobs_list_unseen (const struct jobs *jobs, struct jobs_unseen *out, uint32_t n);

#endif
