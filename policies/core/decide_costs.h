/*
 * Internal to the core: what each way to run a job costs, alongside those that run.
 * decide_costs.c prices them, decide.c chooses.
 */
#ifndef SLUICE_DECIDE_COSTS_H
#define SLUICE_DECIDE_COSTS_H

#include "decide.h"
#include "load.h"
#include "situation.h"

/* The job to decide on. */
struct newcomer {
	const struct sluice_profile *profile;
	double nodes;
	double runtime; /* s, alone */
};

/* What newcomer and co-runner do to each other while both run. */
struct pair {
	double own; /* share of the stretched I/O time that finds the other one active */
	double other;
	double own_stretch; /* of the I/O */
	double other_stretch;
	double own_slowdown; /* of the job */
	double other_slowdown;
};

/* The newcomer as it would press on a lane, and what that means for members of
 * the situation. */
struct side {
	const struct sluice_pressure *pressure;
	struct sluice_load load;	       /* also as a victim */
	const unsigned char *together;	       /* by member: a review lets the two be */
	struct pair pairs[SLUICE_MAX_MEMBERS]; /* of those that it was introduced to */
};

/* What newcomer and co-runners do to each other on one lane: I, never below 1. */
struct meeting {
	double own;
	double before[SLUICE_KEPT + 1]; /* of each kept one, and of the rest */
	double after[SLUICE_KEPT + 1];
};

/* Meetings on all lanes -> what an alternative costs. A job on several lanes is
 * as slow as on the worst of them: a striped operation takes its slowest target. */
struct tally {
	double own;
	double before[SLUICE_MAX_MEMBERS];
	double after[SLUICE_MAX_MEMBERS];
};

/* Those that reviews keep the job apart from. */
struct kept_from {
	uint32_t lanes; /* on which they write, as bits */
	double until;	/* the last of them ends, UTC seconds; 0: there are none */
};

/* All that an evaluation of one job needs. */
struct sluice_workspace {
	const struct sluice_situation *situation;
	struct newcomer job;
	int is_confinable;    /* one lane can hold all that it writes */
	double lost_in_turns; /* share of what is lost by sharing that turns leave */
	struct sluice_pressure spread; /* over all lanes */
	struct side sharing;	       /* with that, introduced to all */
	struct side confined;	       /* as it would press on some of the lanes only */
	double now;
	struct sluice_pairing pairings[SLUICE_MAX_PAIRINGS];
	uint32_t pairing_count;
	struct kept_from kept_from;
	unsigned char together[SLUICE_MAX_MEMBERS]; /* 1: a review lets the two be */
	struct tally tally;			    /* of the alternative at hand */
	struct meeting shared[SLUICE_MAX_LANES];    /* at now, spread over all lanes */
	struct meeting apart[SLUICE_MAX_LANES];	    /* at now, writing elsewhere */
	struct meeting later[SLUICE_MAX_LANES]; /* after a wait, spread over all lanes */
	struct sluice_profile shifted; /* the job as small or as large as it may be */
	struct sluice_decision if_shifted;
	struct sluice_placement placement; /* with the latest jobs */
};

/* Ends of co-runners that hurt or are hurt, within the longest delay, rising. */
struct sluice_ends {
	uint32_t count;
	double at[SLUICE_KEPT];
};

/* Put what sharing costs, with and without turns, and the co-runs into out; note the ends
 * that are worth waiting for. Returns the alternative that others have to beat. */
uint32_t sluice_price_sharing (struct sluice_workspace *workspace, struct sluice_ends *ends,
			       struct sluice_decision *out);

/* Add what a lane of its own, and to wait for one of these ends, would cost. */
void sluice_price_apart (struct sluice_workspace *workspace, const struct sluice_ends *ends,
			 uint32_t shared, struct sluice_decision *out);

/* Seconds for which a member will be there from `start` on. */
static inline double
sluice_remaining_of (const struct sluice_situation *s, uint32_t member, double start)
{
	return larger (0.0, s->members[member].end - start);
}

#endif
