/*
 * Bursts of jobs, put together from what agents report of parts of jobs; the core decides
 * on them, and each agent is sent its verdicts.
 *
 *   bursts.c       the table of jobs and of their parts on agents
 *   reports.c      reports begin and end bursts
 *   learning.c     rates of jobs alone, from reports
 *   prediction.c   the demand and length of a burst
 *   trials.c       how far bursts are, and their speed
 *   verdicts.c     the core's verdicts, put into effect
 *   placing.c      where new files of jobs go
 *
 * No I/O, no clock: `clock` is in seconds, and never goes back. What agents report is
 * bounded in number here and in size by the frames; nothing that they send breaks anything.
 *
 * A burst is expected to be as long as the job's last one, else as its profile predicts.
 * Its demand is its rate while no other job wrote on its lanes, else the profile's, else
 * the most that it ever got. Lanes are what they are configured to be, as the core corrects
 * it.
 */
#ifndef SLUICE_TURNS_BURSTS_H
#define SLUICE_TURNS_BURSTS_H

#include "snapshot.h"
#include "turns_check.h"
#include "wire.h"

enum {
	BURSTS_MAX_JOBS = 16384,
	BURSTS_MAX_PARTS = 131072,
	BURSTS_MAX_PARTS_OF_AGENT = 1024,
};

/* What decisions follow. The caller owns it, and gives each its own number. */
struct bursts_rules {
	uint64_t number;
	int holds;  /* 0: decide and count, but hold no job */
	int is_off; /* 1: do not decide */
	struct sluice_turns_settings settings;
	struct sluice_turns_storage storage;
	const struct sluice_snapshot *snapshot; /* profiles of jobs; NULL: none */
	const struct sluice_policy *policy;	/* names the storage's lanes; NULL: none */
};

/* Begins the caller's struct for a connection; zero at first. */
struct bursts_agent {
	struct burst_part *parts;
	uint32_t part_count;
	uint64_t echo; /* agent's clock of its newest report */
};

/* Sends a word to an agent. */
typedef void bursts_send (void *sender, struct bursts_agent *agent,
			  const struct wire_word *word);

typedef void bursts_send_place (void *sender, struct bursts_agent *agent,
				const struct wire_place *word);

/* X(name, meaning): since the start. */
#define BURSTS_COUNTS(X)                                                                   \
	X (bursts, "bursts of jobs")                                                       \
	X (holds, "times that a burst was held or slowed down")                            \
	X (held_seconds, "s for which bursts were held")                                   \
	X (held_node_seconds, "the same times the nodes of each job")                      \
	X (budgets, "times that a burst went on because its budget was used up")           \
	X (trials, "times that a held burst went for a moment, to see whether holds help") \
	X (no_help, "times that a burst went on because holds were seen not to help")      \
	X (places, "times that new files of a job were sent to other targets")             \
	X (bytes, "bytes of writes that were reported")                                    \
	X (uncovered_bytes, "bytes known to have been written in ways that are not held")  \
	X (refused, "processes that found no room in their job's page")                    \
	X (silent, "bursts that ended because their node fell silent")                     \
	X (no_room, "parts of jobs for which there was no room")

#define BURSTS_COUNT(name, text) double name;
struct bursts_counts {
	BURSTS_COUNTS (BURSTS_COUNT)
};

/* A burst that was held, when it has ended; clocks are of the coordinator. */
struct held_burst {
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

/* Called with each. */
typedef void bursts_record (void *recorder, const struct held_burst *burst, double clock);

struct bursts;

struct bursts *bursts_create (bursts_send *send, bursts_send_place *send_place,
			      void *sender);
void bursts_destroy (struct bursts *bursts);
void bursts_set_recorder (struct bursts *bursts, bursts_record *record, void *recorder);

void bursts_report (struct bursts *bursts, struct bursts_agent *agent,
		    const struct wire_report *report, double clock);
/* The agent is gone, and what it reported. */
void bursts_drop (struct bursts *bursts, struct bursts_agent *agent, double clock);
/* Decide on all bursts and send what changes. Returns the clock at which to decide again if
 * nothing is reported before. */
double bursts_decide (struct bursts *bursts, const struct bursts_rules *rules,
		      double clock);
/* Whether something was reported that decisions depend on, since the last one. */
int bursts_have_changed (const struct bursts *bursts);

const struct bursts_counts *bursts_counts (const struct bursts *bursts);
uint32_t bursts_job_count (const struct bursts *bursts);
uint32_t bursts_active_count (const struct bursts *bursts);
uint32_t bursts_holding_count (const struct bursts *bursts);
uint32_t bursts_placed_count (const struct bursts *bursts);

/* A job in a burst. */
struct active_burst {
	uint32_t job_id, lane_mask;
	uint32_t first;	 /* job that it is held for; 0: none */
	uint32_t reason; /* of its verdict: enum sluice_turn_reason */
	double share;	 /* of full speed that it may have; 0: it is held */
	double since;	 /* clock of its last change between going and being held */
	double began;
	double bytes, operations; /* a second, lately */
};
/* Up to n of them, the fastest writers first. */
uint32_t bursts_list (const struct bursts *bursts, double clock, struct active_burst *out,
		      uint32_t n);

/* A job with a page and without a reported write; up to n are listed. */
struct silent_job {
	uint32_t job_id;
	double since; /* clock at which its first node reported */
};
uint32_t bursts_list_silent (const struct bursts *bursts, struct silent_job *out,
			     uint32_t n);

/* What the targets of a lane were learned to do, over its Bandwidth; 1: as it says. */
double bursts_lane_scale (const struct bursts *bursts, uint32_t lane);

#endif
