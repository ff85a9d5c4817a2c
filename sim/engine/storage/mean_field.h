/*
 * The mean-field storage model: what the storage does to the jobs of a replay.
 *
 * Jobs alternate computing and I/O in bursts. During a burst a job is one class
 * of customers in a closed queueing network: a fixed number of requests is
 * outstanding, each passes the metadata server and one target (with its server)
 * and comes back. The mean-field form of that network needs one unknown a
 * station, the time W that a request waits there:
 *
 *   x_j = min (cap_j, N_j / (A_j + W_meta + max over its lanes (W_target + W_server)))
 *
 * with N the requests outstanding, A the time of one request when no other is
 * there, cap the rate at which the program produces. W is 0 at a station that is
 * not full, else the one that fills it exactly. So a program that waits for each
 * write (flushing) loses to one that keeps a window of requests outstanding
 * (streaming), without any table of patterns. sim/engine/storage/discrete_event.h has the
 * same mechanisms request by request; docs/reference/storage-models.md compares both.
 *
 * A lane is one station, as if each job were spread over all of its targets evenly. With an
 * allocator, each target is a station (and the link of each server that could be full), a
 * job is on some of them, and the slowest decides. Without one there is nothing that
 * placement could win.
 *
 * Time alone is exact by construction: a burst is worth its nominal seconds and
 * passes at x_j / x_j(alone on all lanes). Rates change only when the set of
 * active bursts does, and only on the lanes that the change can reach.
 *
 * What a profile takes of the stations is the model's own truth. What Sluice predicts of
 * it, and what turns start from, is sluice_turns_demand of the core (contended.h).
 *
 * Deterministic: equal calls give equal bits. No clock, no globals; memory grows
 * with the jobs that run at the same time.
 */
#ifndef SLUICE_MEAN_FIELD_H
#define SLUICE_MEAN_FIELD_H

#include "base.h"
#include "bursts.h"
#include "placement.h"
#include "profile.h"

/* X(name, default, low, high, unit, meaning): the storage system, in numbers.
 * Defaults: the Lustre of Shah et al. (SuperFrI 2019), as in
 * sluice.sim.storage.discrete_event, where each number has its source. */
#define SLUICE_MEAN_FIELD_FIELDS(X)                                                        \
	X (target_bandwidth, 50e9 / 104, 1.0, 1e15, "B/s",                                 \
	   "one target, writing in a stream")                                              \
	X (server_bandwidth, 6.25e9, 1.0, 1e15, "B/s", "the link of one server")           \
	X (request_bytes, 1048576.0, 1.0, 1e12, "B", "largest request to a target")        \
	X (stream_window, 3.0, 1.0, 1e6, "requests",                                       \
	   "in flight of a process that appends")                                          \
	X (rewrite_window, 6.0, 1.0, 1e6, "requests",                                      \
	   "in flight of a process that rewrites")                                         \
	X (node_rate, 0.5e9, 1.0, 1e15, "B/s", "of one node, where a profile has no rate") \
	X (commit_seconds, 0.93e-3, 0.0, 100.0, "s",                                       \
	   "time of a target that a flush takes")                                          \
	X (metadata_rate, 31000.0, 1.0, 1e12, "ops/s", "what the metadata server serves")  \
	X (switch_cost, 0.0, 0.0, 10.0, "share",                                           \
	   "time of a target lost between programs, in the limit of many")                 \
	X (burst_spread, 0.0, 0.0, 3.0, "sd of ln",                                        \
	   "by which the bursts of a job differ in length")

#define SLUICE_MEAN_FIELD_MEMBER(name, value, low, high, unit, text) double name;

/* How a full station divides itself among jobs. */
enum sluice_sharing {
	SLUICE_SHARING_FIFO,  /* first come, first served: by requests outstanding */
	SLUICE_SHARING_JOBS,  /* equal shares for jobs (Lustre TBF, ThemisIO job-fair) */
	SLUICE_SHARING_NODES, /* shares by nodes (ThemisIO size-fair) */
};

/* The file system's own choice of targets for new files. */
enum sluice_allocator {
	SLUICE_ALLOCATOR_NONE,	 /* targets are not told apart: a lane is one station */
	SLUICE_ALLOCATOR_CHANCE, /* neighbours of which the first is drawn */
	SLUICE_ALLOCATOR_ROUND_ROBIN, /* neighbours from a pointer that all creates move */
};

struct sluice_mean_field_lane {
	double targets; /* storage targets, >= 1 */
	double servers; /* servers in front of them, > 0 (a half: shared with another) */
};

struct sluice_mean_field_config {
	SLUICE_MEAN_FIELD_FIELDS (SLUICE_MEAN_FIELD_MEMBER)
	struct sluice_turns_config turns;
	uint64_t seed;		/* of what differs between bursts, and of noise */
	double foreign_creates; /* 1/s of others, which move the pointer as well */
	uint32_t allocator;	/* enum sluice_allocator */
	uint32_t reserved;
	uint32_t sharing;    /* enum sluice_sharing */
	uint32_t lane_count; /* 1..SLUICE_MAX_LANES */
	struct sluice_mean_field_lane lanes[SLUICE_MAX_LANES];
};

/* A burst in the terms of the network, and the rhythm of the job. */
struct sluice_mean_field_load {
	double outstanding;	 /* N: requests in flight at most */
	double cycle;		 /* A: s of one request when no other is there */
	double cap;		 /* requests/s that the program produces at most */
	double target_seconds;	 /* of a target's time, each request */
	double server_seconds;	 /* of a server's link, each request */
	double metadata_seconds; /* of the metadata server, each request */
	double weight;		 /* its share in SLUICE_SHARING_NODES: nodes */
	double compute;		 /* s between bursts; async: s of computing a cycle */
	double burst;		 /* s of a burst, alone on all lanes */
	uint32_t bursts;	 /* cycles of computing, then a burst; 0: no I/O */
	uint32_t async; /* 1: the burst runs alongside the computing of its cycle */
	/* Where targets are told apart. A burst makes new files: striped over `width`
	 * targets, or `files` files on one target each, which end one by one. */
	uint32_t width;	 /* 0: all */
	uint32_t files;	 /* 0: striped */
	uint32_t placed; /* 1: at create, on targets where the fewest bursts are */
	uint32_t reserved;
	/* What turns start from. A burst that has ended tells better. */
	uint64_t program;  /* of one that does the same to storage */
	uint32_t coverage; /* enum sluice_coverage */
	double expected;   /* s of its first burst; 0: unknown */
	double most_held;  /* s for which its run may be held; INFINITY: no limit */
	/* Predicted shares of all targets, links and the metadata server, alone on all
	 * lanes; all 0: as the model has them. */
	double target_share, link_share, metadata_share;
};

/* How a job ended. Seconds of one job, not of its nodes. */
struct sluice_mean_field_end {
	double time;	 /* when */
	double runtime;	 /* since its start */
	double alone;	 /* run time it would have had alone on all lanes */
	double io;	 /* s inside bursts */
	double io_alone; /* the same, alone on all lanes */
	double held;	 /* s for which turns held its bursts */
	double saving;	 /* node-s that these holds were to save */
	uint64_t tag;
	uint32_t slot;
	uint32_t reserved;
};

struct sluice_mean_field;

/* The defaults, with one lane of 104 targets on 8 servers. */
void sluice_mean_field_config_init (struct sluice_mean_field_config *config);
int sluice_mean_field_config_check (const struct sluice_mean_field_config *config,
				    struct sluice_error *err);

/* Multiply every number of SLUICE_MEAN_FIELD_FIELDS by exp (sd * normal), drawn from
 * seed; windows stay >= 1. For the sensitivity of an answer to the storage model. */
void sluice_mean_field_config_perturb (struct sluice_mean_field_config *config,
				       uint64_t seed, double sd);

/* The load of a job that runs for runtime s alone on nodes nodes. Unknown numbers
 * of the profile count as the pattern's usual ones, an unknown rate as nodes *
 * node_rate or all targets'; more than max_bursts bursts are joined to max_bursts longer
 * ones with the same I/O share (a trace has jobs of days with bursts of seconds). */
void sluice_mean_field_load_of (const struct sluice_profile *profile, double nodes,
				double runtime, uint32_t max_bursts,
				const struct sluice_mean_field_config *config,
				struct sluice_mean_field_load *out);

/* All lanes as one. */
struct sluice_mean_field_lane
sluice_mean_field_total (const struct sluice_mean_field_config *config);

/* Servers' links behind which targets that are told apart are, in turn. */
uint32_t sluice_mean_field_links (const struct sluice_mean_field_config *config);

/* Requests/s of a load that is alone on all lanes, or on its own targets. */
double sluice_mean_field_alone_rate (const struct sluice_mean_field_config *config,
				     const struct sluice_mean_field_load *load);

enum { SLUICE_MEAN_FIELD_STATIONS = 3 }; /* targets, servers' links, metadata server */

/* shares[SLUICE_MEAN_FIELD_STATIONS]: what it takes meanwhile of all that each can do. */
void sluice_mean_field_shares (const struct sluice_mean_field_config *config,
			       const struct sluice_mean_field_load *load, double *shares);

/* NULL when there is no memory or the configuration is wrong (err says which). */
struct sluice_mean_field *sluice_mean_field_new (
    const struct sluice_mean_field_config *config, struct sluice_error *err);
void sluice_mean_field_destroy (struct sluice_mean_field *mean_field); /* NULL is fine */

/* Start a job at now (never before an earlier call's) on the lanes of lane_mask
 * (bit i: lane i; 0: all), where targets are told apart on those of its block (count 0: of
 * its lanes). tag comes back with its end. Returns its slot, or -1 without memory. A slot
 * is used again after its job has ended. */
int64_t sluice_mean_field_start (struct sluice_mean_field *mean_field, double now,
				 const struct sluice_mean_field_load *load,
				 uint32_t lane_mask, struct sluice_block block,
				 uint64_t tag);

/* End a job now (killed, preempted); out may be NULL. */
void sluice_mean_field_stop (struct sluice_mean_field *mean_field, double now,
			     uint32_t slot, struct sluice_mean_field_end *out);

/* Let the storage model run up to and including until. Returns 1 at the first end of a
 * job (earliest time, then order of starting) and 0 when none ends by then; call
 * again after each 1. The storage model is then at out->time, or at until. */
int sluice_mean_field_run (struct sluice_mean_field *mean_field, double until,
			   struct sluice_mean_field_end *out);

/* Of a running job: rate of its burst as a share of alone; 1 while it computes, 0 while
 * turns hold it. */
double sluice_mean_field_rate (struct sluice_mean_field *mean_field, uint32_t slot);

/* Bytes on a target, those from before the replay with them; -1 where targets are not told
 * apart. */
double sluice_mean_field_filled (const struct sluice_mean_field *mean_field,
				 uint32_t target);

/* Bytes that ended bursts have written on a target; NULL where they are not told apart. */
const double *sluice_mean_field_written (const struct sluice_mean_field *mean_field,
					 uint32_t target);

/* Watch what turns are decided from, and what comes out. */
void sluice_mean_field_watch_turns (struct sluice_mean_field *mean_field,
				    sluice_turns_watch *watch, void *watcher);

#endif
