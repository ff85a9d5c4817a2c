/*
 * Turns: which bursts of running jobs go at full speed now, and which wait.
 *
 * Where a storage is full, bursts are slow; their order decides what is lost. They go in
 * the order of an index, Smith's rule on remaining work (Smith, Naval Research Logistics
 * Quarterly 3, 1956), which is optimal on one machine:
 *
 *   index = nodes / (share * left)
 *
 * share: what the burst takes unhindered of its fullest station; left: seconds that it
 * would still take at full speed. From the highest index on, a burst goes that finds room
 * alongside those that went before it, and is not slowed. One that finds room for a part of
 * its demand, at least for `fit`, goes too, at the speed that is left: a station that it
 * takes little of may be overfilled by a little. The others are held. No burst
 * is held that touches no full station, must not be held, or was held for as long as the
 * budget allows. These take their place in the order all the same: others do not have
 * what they take.
 *
 * A program may be watched, by itself or by others, and be ended where it shows no
 * progress. So no hold lasts for longer than `hold` at a stretch: then the burst goes until
 * verdicts have reached it and it has made a call that writes (sluice_turns_respite).
 *
 * Whenever a burst ends, a latency passes until another takes its place, and the storage
 * idles. So short bursts are not held, and others wait for them only while they take
 * little of a station. A burst of which nothing is expected counts as short until it has
 * lasted: its job may have no others that are longer.
 *
 * With a the seconds done and g the expected length of the burst,
 *
 *   left = max (g - a, 0.05 g)             while a < g
 *          0.5 g 2^floor (log2 (a / g))    beyond
 *   and where nothing is expected, the next of the levels quantum * 2^k above a (at least
 *   quantum): the burst that has done least comes first.
 *
 * The length of a burst counts as g, or the level above a.
 *
 * So verdicts change when a burst begins or ends, when one crosses a level, and when a
 * budget is used up; sluice_turns_decide returns when the latter two are due.
 *
 * Demands and capacities are never exact, and a demand that is set too high leaves the
 * storage idle, one too low overfills it. sluice_turns_learn corrects what a station is
 * taken to do by the speed at which bursts go.
 *
 * Of a burst whose targets are known, bandwidth and operations are those of its targets: a
 * full one holds those bursts that write to it, and no others. A burst that writes evenly
 * to a lane meets the mean of its targets.
 *
 * State in, verdicts out: no clock, no memory of its own, O(n log n) in the bursts. Equal
 * jobs get equal verdicts in whatever order they are listed.
 */
#ifndef SLUICE_TURNS_H
#define SLUICE_TURNS_H

#include "profile.h"

/* What a burst may fill. Each lane has stations of its own but for the metadata server,
 * which all lanes share. */
enum sluice_station {
	SLUICE_STATION_BYTES,	   /* bandwidth of the targets: B/s */
	SLUICE_STATION_OPERATIONS, /* operations of the targets: 1/s */
	SLUICE_STATION_LINKS,	   /* of their servers: B/s */
	SLUICE_STATION_METADATA,   /* operations of the metadata server: 1/s */
	SLUICE_STATION_COUNT
};

enum { SLUICE_TURNS_JOINED = 1 << 20 }; /* bytes that caches join to one operation */

enum { SLUICE_TURNS_TARGETS = 512 };

/* Predict what the bursts of a profile take of each station while no other burst slows
 * them; 0: unknown. Operations are what agents count: writes, flushes and closes, of which
 * caches join those that no process waits for. */
void sluice_turns_demand (const struct sluice_profile *profile,
			  double demand[SLUICE_STATION_COUNT]);

/* X(member, default, low, high, meaning). docs/evidence/turns.md has the measurements
 * behind the defaults. */
#define SLUICE_TURNS_SETTINGS(X)                                                           \
	X (latency, 1.0, 0.0, 3600.0,                                                      \
	   "seconds from what happens to a burst until a verdict on it is in effect")      \
	X (guard, 20.0, 0.0, 1e6, "bursts shorter than this many latencies are not held")  \
	X (brief, 0.5, 0.0, 1.0,                                                           \
	   "share of a station that such bursts may take while others wait for them")      \
	X (fit, 0.1, 0.001, 1.0,                                                           \
	   "share of its demand for which a burst must find room, to go")                  \
	X (pace, 1.0, 0.0, 100.0,                                                          \
	   "one that fits in part goes at this times the speed that is left; 0: at full")  \
	X (budget, 5.0, 0.0, 1e6,                                                          \
	   "a burst may be held for this many times its expected length")                  \
	X (hold, 60.0, 0.001, 1e6,                                                         \
	   "seconds for which a burst is held at a stretch; then it goes for a moment")    \
	X (quantum, 10.0, 0.001, 1e6,                                                      \
	   "seconds of the first level of a burst of which nothing is expected")           \
	X (tolerance, 0.1, 0.0, 1.0,                                                       \
	   "a burst that is slower by less is not slowed by others")                       \
	X (probe, 0.1, 0.0, 1.0,                                                           \
	   "share by which a station is tried to do more, while it slows no burst")        \
	X (patience, 60.0, 0.0, 1e6, "s until that is tried again after it slowed one")    \
	X (rare, 0.004, 0.0, 1.0,                                                          \
	   "share of a week for which a station must have been full, for holds to pay")    \
	X (trial, 10.0, 0.0, 1e6,                                                          \
	   "latencies for which a held burst goes now and then, to see whether its hold "  \
	   "helps; 0: never")

#define SLUICE_TURNS_MEMBER(member, value, low, high, text) double member;

struct sluice_turns_settings {
	SLUICE_TURNS_SETTINGS (SLUICE_TURNS_MEMBER)
};

void sluice_turns_settings_init (struct sluice_turns_settings *settings); /* defaults */
int sluice_turns_settings_check (const struct sluice_turns_settings *settings,
				 struct sluice_error *err);

/* Capacities are in the units of sluice_station, less what others take of which no burst
 * is known; or 1, where demands are shares. 0: unknown, and never full. */
struct sluice_turns_lane {
	double targets; /* a burst spreads over its lanes by these */
	double bytes, operations, links;
};

struct sluice_turns_storage {
	double metadata;
	uint32_t lane_count; /* 1..SLUICE_MAX_LANES */
	uint32_t reserved;
	struct sluice_turns_lane lanes[SLUICE_MAX_LANES];
};

/* The lanes that a mask names, as bits; all where it names none of these. */
uint32_t sluice_turns_lanes (const struct sluice_turns_storage *storage,
			     uint32_t lane_mask);

/* Targets of these lanes together: a burst spreads over its lanes by their part of them. */
double sluice_turns_targets (const struct sluice_turns_storage *storage, uint32_t lanes);

enum sluice_turns_flags {
	/* Not to be held: not covered, holds a file lock, is about to end, too new to be
	 * held. */
	SLUICE_TURNS_EXEMPT = 1 << 0,
};

/* A job that is in a burst. */
struct sluice_turns_job {
	uint64_t key; /* its own: orders those that are alike */
	double nodes; /* that wait while it writes */
	/* What it takes of each station, on all of its lanes together, while no other
	 * burst slows it: of the job's own undisturbed bursts, or predicted from its
	 * profile. More than its lanes have counts as all of that. */
	double demand[SLUICE_STATION_COUNT];
	double expected;  /* s at full speed that the burst takes: the job's last one, else
			   * history; 0: unknown */
	double done;	  /* s at full speed: how much of it is done */
	double held;	  /* s for which it has been held in this burst: one in which
			   * it goes at a share of 0.3 counts as 0.7 */
	double most_held; /* s: what its run and its time limit allow of that */
	/* sluice_turns_pass updates these: s for which it was held at this stretch, and for
	 * which it has gone since then. */
	double stretch, went;
	double began; /* clock at which the burst began */
	/* For sluice_turns_learn: the share of full speed that its last verdict gave it,
	 * and at which it has gone since then; below 0: not known. */
	double allowed, speed;
	/* For sluice_turns_check: s at full speed that it has done, as far as that is known
	 * (turns_check.h), below 0: not; and what it runs: programs of one number do the
	 * same to storage. */
	double moved;
	uint64_t program;
	/* Of its single lane, those that it writes to, as bits; NULL or none: evenly to
	 * all. Lanes have one numbering together, of SLUICE_TURNS_TARGETS at most. */
	const uint64_t *targets;
	uint32_t lane_mask; /* bit i: lane i; 0: all */
	uint32_t flags;	    /* enum sluice_turns_flags */
};

/* X(NAME, json_name): why. */
#define SLUICE_TURN_REASONS(X)                                                             \
	X (NOT_FULL, "not_full") /* no storage that it uses is full */                     \
	X (IN_ORDER, "in_order") /* those before it in the order leave room for it */      \
	X (PARTLY, "partly")	 /* those before it leave room for a part of it */         \
	X (BEHIND, "behind")	 /* those before it in the order fill the storage */       \
	X (SHORT, "short")	 /* its burst is too short to be held */                   \
	X (EXEMPT, "exempt")	 /* it must not be held */                                 \
	X (BUDGET, "budget")	 /* it was held for as long as its budget allows */        \
	X (STRETCH, "stretch")	 /* it was held for as long as one hold may last */        \
	X (TRIAL, "trial")	 /* it goes for a moment, to see whether its hold helps */ \
	X (NO_HELP, "no_help")	 /* trials show that holds do not help here */             \
	X (NO_GAIN, "no_gain")	 /* to hold it would save no node-seconds */

#define SLUICE_ENUM_TURN_REASON(name, json) SLUICE_TURN_##name,
enum sluice_turn_reason {
	SLUICE_TURN_REASONS (SLUICE_ENUM_TURN_REASON) SLUICE_TURN_REASON_COUNT
};
const char *sluice_turn_reason_name (unsigned int reason);

enum { SLUICE_TURN_NO_BURST = 0x7fffffff }; /* no index is as large */

/* The verdict on a job. */
struct sluice_turn {
	double index;	 /* nodes / s; the highest goes first */
	double share;	 /* of full speed that it may have: 1 goes, 0 is held */
	double until;	 /* clock at which its budget ends; INFINITY: it goes */
	double saving;	 /* node-seconds that its hold saves; NAN: unknown */
	uint32_t first;	 /* index of the burst that it is held or slowed down for: the one
			  * that takes most on its lanes; SLUICE_TURN_NO_BURST: none */
	uint32_t reason; /* enum sluice_turn_reason */
};

/*
 * Decide on all n jobs that are in a burst at `clock`: out[i] on jobs[i]. scratch has room
 * for n. Returns the clock at which to decide again if nothing happens before: a burst
 * may cross a level, or a budget ends; INFINITY: neither. Values that make no sense count
 * as unknown.
 */
double sluice_turns_decide (const struct sluice_turns_settings *settings,
			    const struct sluice_turns_storage *storage,
			    const struct sluice_turns_job *jobs, uint32_t n, double clock,
			    uint32_t *scratch, struct sluice_turn *out);

/* Its run and its time limit leave it so many seconds to be held; less than one: none. */
void sluice_turns_leave (struct sluice_turns_job *job, double left);

/* s for which a burst goes after it was held for as long as one hold may last. */
double sluice_turns_respite (const struct sluice_turns_settings *settings);

/* So many seconds have passed in which a burst had such a share of full speed. A stretch is
 * over when the burst has gone for `respite` in one piece. */
void sluice_turns_pass (double respite, double share, double seconds, double *stretch,
			double *went);

enum { SLUICE_TURNS_STATIONS = SLUICE_MAX_LANES * SLUICE_STATION_METADATA + 1 };

/* What is known of a station from how bursts went. */
struct sluice_turns_station {
	double scale;	  /* what it can do, over what the storage is configured to */
	double slowed;	  /* clock at which it last slowed a burst */
	double full;	  /* share of the last week for which bursts wanted more */
	uint32_t is_full; /* whether they do since the last call */
	uint32_t reserved;
};

/* The stations of each lane one after the other, then the metadata server. */
struct sluice_turns_memory {
	double clock;	/* of the last call */
	double learned; /* of the last one that judged stations */
	struct sluice_turns_station stations[SLUICE_TURNS_STATIONS];
};

void sluice_turns_memory_init (struct sluice_turns_memory *memory); /* nothing is known */

/*
 * Learn from the n jobs that are in a burst at `clock` what the stations can do, and set
 * *out to the storage that turns are to be decided for.
 *
 * A station at which bursts are slowed that were to go can do no more than they do now.
 * One that slows no burst while others are held for it may do more: it is tried, a little
 * more each time, until it slows one; after that, not for `patience`. One that does more
 * than it is taken to do can do that. A station that was full for less than `rare` of the
 * last week is none that bursts need be held for.
 *
 * A station is judged only while the speed of every job at it is known, so not while others
 * have begun that are not among them. Returns the clock at which to call again if nothing
 * happens before; INFINITY: then there is nothing to learn.
 */
double sluice_turns_learn (const struct sluice_turns_settings *settings,
			   const struct sluice_turns_storage *storage,
			   const struct sluice_turns_job *jobs, uint32_t n, double clock,
			   struct sluice_turns_memory *memory,
			   struct sluice_turns_storage *out);

/* A job whose bursts disturb another's. */
struct sluice_turns_party {
	double nodes;
	double burst; /* s at full speed; 0: unknown */
};

/*
 * What an order of bursts leaves of the node-seconds that two lose by sharing, 0 < s < 1.
 * Bursts overlap from a random instant of either. Sharing equally, each loses the shorter
 * rest, m: (n_a + n_b) m; in order, one waits for the other: min (n_a b_b, n_b b_a), with
 * what is left of the burst that was first in place of its length. Where a length is
 * unknown, both count as equally long. Both fill the storage; where they do not, nothing is
 * lost.
 */
double sluice_turns_pair_share (struct sluice_turns_party a, struct sluice_turns_party b);

#endif
