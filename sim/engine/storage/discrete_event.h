/*
 * The discrete-event storage model: a parallel file system as a closed queueing network,
 * simulated request by request.
 *
 * A process writes one operation after the other. An operation visits, where the
 * numbers below are not zero: a delay (set-up), the metadata server (creates), and
 * then ceil (bytes / stripe) targets at once, and ends with the slowest of them
 * (fork-join). What goes to one target is a flow: units of at most unit_bytes, a
 * bounded number of them in flight, through its connection's stall, the producing
 * process, its node's link, the server's link, the server's work for a new flow, and
 * the target.
 *
 * A target serves units first come, first served; if it has a seek time, it
 * stays with a stream for up to a slice before it turns to the next one. A flush
 * adds a commit, which others that wait at the target may share. A server with a
 * cache acknowledges as soon as memory has the unit, until the cache is full.
 * Where sources are faster than a server's port and its device slower, flows
 * above a limit are refused and try again after a timeout (incast).
 *
 * What a program takes of targets, links and the metadata server is the model's own truth.
 * What turns start from is predicted by the core, where it is told (contended.h).
 *
 * Bursts may take turns (bursts.h). One that is held writes nothing new, between two
 * writes, or where writes go out behind it between two units; one that goes in part is
 * paced; what is under way is not called back. What control takes for a program's rate
 * alone and its demand is measured: the program is simulated alone first.
 *
 * Programs that yield stage in their nodes' memory while others write, and programs
 * that divide keep to their part of the targets (discrete_event_run.c).
 *
 * Deterministic: events at the same time keep the order of their scheduling.
 */
#ifndef SLUICE_DISCRETE_EVENT_H
#define SLUICE_DISCRETE_EVENT_H

#include "base.h"
#include "bursts.h"

#ifndef SLUICE_BINDING
#include <math.h>
#endif

/* X(name, default, low, high, unit, meaning). Seconds and bytes of 0 switch a
 * mechanism off; so does an infinite bandwidth. */
#define SLUICE_STORAGE_FIELDS(X)                                                           \
	X (servers, 1.0, 1.0, 1e4, "servers", "file servers")                              \
	X (targets, 1.0, 1.0, 1e5, "targets",                                              \
	   "storage targets; target t is on server t mod servers")                         \
	X (node_bandwidth, INFINITY, 1.0, INFINITY, "B/s", "a client node's link")         \
	X (server_bandwidth, INFINITY, 1.0, INFINITY, "B/s", "a server's link")            \
	X (process_bandwidth, INFINITY, 1.0, INFINITY, "B/s", "what one process produces") \
	X (call_seconds, 0.0, 0.0, 10.0, "s", "of a process for one write call")           \
	X (setup_seconds, 0.0, 0.0, 100.0, "s",                                            \
	   "delay of an operation, on no shared station")                                  \
	X (stall_seconds, 0.0, 0.0, 10.0, "s",                                             \
	   "a new flow's connection stalls for up to this, each for its own time")         \
	X (flow_seconds, 0.0, 0.0, 10.0, "s", "work of a server for a new flow")           \
	X (unit_bytes, 1048576.0, 512.0, 1e12, "B", "largest unit on the wire")            \
	X (flow_window, 8.0, 1.0, 1e6, "units", "in flight of a flow to new blocks")       \
	X (rewrite_window, 8.0, 1.0, 1e6, "units",                                         \
	   "in flight of a flow to existing blocks")                                       \
	X (process_window, 0.0, 0.0, 1e6, "units", "in flight of a process; 0: no limit")  \
	X (target_bandwidth, 1e9, 1.0, 1e15, "B/s", "a target within a stream")            \
	X (seek_seconds, 0.0, 0.0, 10.0, "s", "of a target to turn to another stream")     \
	X (slice_bytes, 1e6, 1.0, 1e15, "B", "that a target stays with a stream for")      \
	X (ordered, 0.0, 0.0, 1.0, "flag",                                                 \
	   "1: targets serve operations in the order in which they began")                 \
	X (commit_seconds, 0.0, 0.0, 100.0, "s", "of a target for a flush")                \
	X (commit_group, 1e9, 1.0, 1e9, "flows", "that one commit can serve")              \
	X (cache_bytes, 0.0, 0.0, 1e18, "B",                                               \
	   "write-back cache of a server; 0: writes through")                              \
	X (drain_window, 0.0, 0.0, 1e9, "units",                                           \
	   "under way from a cache, in the order of arrival; 0: no limit")                 \
	X (cache_bandwidth, 1e9, 1.0, 1e15, "B/s", "a server's memory")                    \
	X (create_delay, 0.0, 0.0, 100.0, "s",                                             \
	   "round trips of a create, on no shared station")                                \
	X (create_seconds, 0.0, 0.0, 100.0, "s", "of the metadata server for a create")    \
	X (create_contention, 0.0, 0.0, 10.0, "share",                                     \
	   "of create_seconds more for each other create under way")                       \
	X (flow_limit, 0.0, 0.0, 1e9, "flows", "established at a server; 0: no limit")     \
	X (retry_seconds, 0.2, 1e-6, 1e3, "s", "until a refused flow tries again")         \
	X (buffer_bytes, 0.0, 0.0, 1e18, "B", "of a node, for programs that yield")        \
	X (buffer_bandwidth, 1e10, 1.0, 1e15, "B/s",                                       \
	   "of a process into its node's buffer")                                          \
	X (jitter_seconds, 0.0, 0.0, 1e3, "s", "spread of the processes' starts")          \
	X (burst_spread, 0.0, 0.0, 3.0, "sd of ln",                                        \
	   "by which the bursts of a program differ in length")                            \
	X (lanes, 1.0, 1.0, SLUICE_MAX_LANES, "lanes",                                     \
	   "equal groups of targets, one after the other, that turns tell apart")          \
	X (shares, 0.0, 0.0, 1.0, "flag", "1: targets share equally among programs")

#define SLUICE_STORAGE_MEMBER(name, value, low, high, unit, text) double name;

struct sluice_storage {
	SLUICE_STORAGE_FIELDS (SLUICE_STORAGE_MEMBER)
	struct sluice_turns_config turns;
	uint64_t seed; /* of the jitter, of what differs between bursts, and of noise */
};

/* When the next operation of a process may begin. */
enum sluice_sync {
	SLUICE_SYNC_BEHIND, /* when memory has it: all of a burst is one operation */
	SLUICE_SYNC_ACK,    /* when all servers have acknowledged it */
	SLUICE_SYNC_FLUSH   /* when it is on the device and committed */
};

/* The order of writes (Huang et al.: one process after the other on a target). */
enum sluice_dispatch {
	SLUICE_DISPATCH_FREE,	/* all at any time */
	SLUICE_DISPATCH_TURNS,	/* one operation at a time on each target */
	SLUICE_DISPATCH_REROUTE /* likewise, and idle targets take from busy ones */
};

/* What a program does while one that never yields is in a burst (Kougkas et al.). */
enum sluice_yield {
	SLUICE_YIELD_NEVER, /* writes */
	SLUICE_YIELD_BLOCK, /* fills its nodes' buffers, then waits for the other's end */
	SLUICE_YIELD_FLUSH  /* fills them, and writes when it can do nothing else */
};

#define SLUICE_PROGRAM_FIELDS(X)                                                           \
	X (processes, 1.0, 1.0, 1e6, "processes", "that write")                            \
	X (nodes, 1.0, 1.0, 1e6, "nodes", "they run on, spread evenly")                    \
	X (operation_bytes, 1048576.0, 1.0, 1e15, "B", "of one write")                     \
	X (operations, 1.0, 1.0, 1e9, "writes", "of a process in a burst")                 \
	X (bursts, 1.0, 0.0, 1e6, "bursts", "of a process")                                \
	X (compute, 0.0, 0.0, 1e9, "s", "of computing before each burst, if in_step")      \
	X (period, 0.0, 0.0, 1e9, "s", "from burst to burst, if the last one is over")     \
	X (start, 0.0, 0.0, 1e9, "s", "when it begins")                                    \
	X (stripe_bytes, 1e15, 1.0, 1e15, "B", "of a file on one target after the other")  \
	X (stripe_targets, 1.0, 1.0, 1e5, "targets", "a file is spread over")              \
	X (first_target, 0.0, 0.0, 1e5, "target", "first of those that it may use")        \
	X (target_count, 0.0, 0.0, 1e5, "targets", "that it may use; 0: all")              \
	X (throttle, 0.0, 0.0, 1e9, "share",                                               \
	   "REROUTE: foreign over own bytes of a target")                                  \
	X (rate, INFINITY, 1e-3, INFINITY, "B/s", "what all its processes produce")        \
	X (expected, 0.0, 0.0, 1e9, "s",                                                   \
	   "what turns take its first burst for, alone; 0: unknown")                       \
	X (most_held, INFINITY, 0.0, INFINITY, "s", "for which turns may hold its run")    \
	X (burst_seconds, 0.0, 0.0, 1e9, "s",                                              \
	   "of a burst alone, which has as many writes as this takes; 0: `operations`")    \
	X (target_share, 0.0, 0.0, 1.0, "share",                                           \
	   "of all targets that turns take its first burst to need; all 0: measured")      \
	X (link_share, 0.0, 0.0, 1.0, "share", "the same of the servers' links")           \
	X (metadata_share, 0.0, 0.0, 1.0, "share", "the same of the metadata server")

struct sluice_program {
	SLUICE_PROGRAM_FIELDS (SLUICE_STORAGE_MEMBER)
	uint32_t sync;	      /* enum sluice_sync */
	uint32_t dispatch;    /* enum sluice_dispatch */
	uint32_t creates;     /* files that an operation creates */
	uint32_t rewrites;    /* 1: to blocks that exist */
	uint32_t interleaved; /* 1: the processes' writes join to one stream (shared file,
			       * rank after rank); 0: a stream of its own for each */
	uint32_t inquiry;     /* 1: REROUTE asks for the longest queue first */
	uint32_t noise;	      /* 1: background that stops when the others have ended */
	uint32_t yields;      /* enum sluice_yield */
	uint32_t divides;     /* 1: while several that do so write, each has its part of
			       * the targets */
	uint32_t in_step;     /* 1: its processes begin each burst together, when the last
			       * of them has ended the one before */
	uint32_t overlaps;    /* 1: in_step, and computes while it writes */
	uint32_t coverage;    /* enum sluice_coverage: what turns can do about it */
	uint64_t program;     /* of all that do the same to storage; 0: not told */
};

struct sluice_program_outcome {
	double first_start; /* s */
	double end;	    /* s, of its last operation; INFINITY if it was stopped */
	double drained;	    /* s, when the storage had what was staged; end: nothing was */
	double bytes;	    /* acknowledged until the end of the simulation */
	double share_time;  /* s, when it had written stop_share; INFINITY: never */
	double stopped;	    /* s, the end of the simulation */
	double largest_target;	/* B, on the target that got most */
	double smallest_target; /* B, on the one that got least */
	double messages;	/* of the coordinators */
	double collapses;	/* flows refused */
	double io;		/* s inside bursts */
	double io_alone;	/* s of that, alone; 0 where turns are off */
	double held;		/* s for which turns held its bursts */
	double saving;		/* node-s that these holds were to save */
};

/* A number of one of the lists above, for readers of scenarios and for reports. */
struct sluice_field {
	const char *name, *unit, *text;
	double value, low, high; /* default and limits */
};

/* The i-th number; NULL at the end. */
const struct sluice_field *sluice_storage_field (unsigned int i);
const struct sluice_field *sluice_program_field (unsigned int i);

/* The defaults. */
void sluice_storage_init (struct sluice_storage *storage);
void sluice_program_init (struct sluice_program *program);

/*
 * Simulate count programs until all but the noise have ended or, with
 * stop_share > 0, until the first has written that share of its bytes (Shah S8).
 * watch: sees what turns are decided from (NULL: nobody does). Returns the number of
 * events, or -1 and the reason.
 */
int64_t sluice_discrete_event_run (const struct sluice_storage *storage,
				   const struct sluice_program *programs, uint32_t count,
				   double stop_share, sluice_turns_watch *watch,
				   void *watcher, struct sluice_program_outcome *outcomes,
				   struct sluice_error *err);

/* A simulation of programs that begin when they are told to. */
struct sluice_discrete_event;

/* Make one of count programs, whose `start` is ignored; all that is pointed to must outlive
 * it. Programs are simulated alone first. NULL and the reason. */
struct sluice_discrete_event *sluice_discrete_event_new (
    const struct sluice_storage *storage, const struct sluice_program *programs,
    uint32_t count, struct sluice_program_outcome *outcomes, struct sluice_error *err);
void sluice_discrete_event_destroy (struct sluice_discrete_event *simulation);

/* Watch what turns are decided from, and what comes out. */
void sluice_discrete_event_watch_turns (struct sluice_discrete_event *simulation,
					sluice_turns_watch *watch, void *watcher);

/* Begin a program now, on the lanes of a bit mask (0: its own targets). One that was
 * stopped may begin anew. */
void sluice_discrete_event_start (struct sluice_discrete_event *simulation, double now,
				  uint32_t program, uint32_t lane_mask);
void sluice_discrete_event_stop (struct sluice_discrete_event *simulation, double now,
				 uint32_t program);

/* Run up to and including until. Returns 1 at the end of a program, 0 when none ends by
 * then, -1 without memory; call again after each 1. */
int sluice_discrete_event_next (struct sluice_discrete_event *simulation, double until,
				double *time, uint32_t *program);

#endif
