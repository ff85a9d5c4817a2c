/*
 * The jobs of this node: whether they are in a burst, what to report of them, and what the
 * coordinator's verdicts say to them.
 *
 * No I/O but for the pages and /proc, no clock: `now` is CLOCK_MONOTONIC in nanoseconds. A
 * job whose word is not renewed goes.
 */
#ifndef SLUICE_NODE_H
#define SLUICE_NODE_H

#include "pages.h"
#include "wire.h"

enum {
	NODE_MAX_JOBS = 1024,
	NODE_SCAN_MS = 150,    /* between scans while there are jobs */
	NODE_REPORT_MS = 1000, /* between reports of a burst, or of a hold */
	NODE_ANSWER_MS
	= 250, /* after a report before a verdict that is too old asks for one */
	NODE_CHECK_SCANS = 7, /* between checks for the dead */
	/* Processes that a check asks about: shared among the pages, whatever they hold. */
	NODE_LOOKS = 2 * NODE_MAX_JOBS,
};

struct node_job {
	uint32_t id;
	uint32_t nodes;
	uint32_t registrations;
	uint32_t is_active;
	uint32_t is_quiet; /* nothing was under way at the last scan */
	struct pages pages;
	struct pages_sum sum;
	uint64_t began; /* its newest burst */
	uint64_t last;	/* activity */
	uint64_t base_bytes, base_operations;
	uint64_t run_held, burst_held, charged;
	uint64_t most_held;	/* in the run; UINT64_MAX: no limit */
	uint64_t exhausted;	/* budgets that it used up */
	uint64_t until;		/* of the word that was said; 0: none */
	uint64_t stretch_began; /* of a hold without a break; 0: it goes */
	uint64_t respite;	/* until then it goes, after one of the longest */
	uint64_t reported;
	uint32_t share;	       /* of full speed under that word, in millionths */
	uint32_t is_due;       /* to be reported */
	uint32_t is_exhausted; /* in this burst */
	uint32_t is_placed;    /* a process follows the words' `place` */
	uint32_t is_in_blocks; /* which are blocks */
	uint16_t first_target, target_count; /* its block; count 0: unknown */
};

struct node {
	struct node_job *jobs[NODE_MAX_JOBS];
	uint32_t job_count;
	uint32_t scans;
	struct processes processes;
	uint64_t refused; /* requests */
};

/* The job of a request, made if need be, registered once more. NULL: why not. */
struct node_job *node_register (struct node *node,
				const struct sluice_agent_request *request,
				struct sluice_error *err);
/* One registration less. Returns 1 when that was the last: the job is gone. */
int node_unregister (struct node *node, uint32_t job_id);

void node_scan (struct node *node, uint64_t now);
/* Describe a job that is due; returns whether it was. All: whether or not it is. */
int node_describe (struct node_job *job, uint64_t now, int all, struct wire_burst *out);
void node_obey (struct node *node, const struct wire_verdict *verdict, uint64_t now);
void node_place (struct node *node, const struct wire_place *place, uint64_t now);
/* All go, and new files wherever they would: the coordinator is gone. */
void node_release_all (struct node *node);

#endif
