/*
 * Internal to the discrete-event storage model: what its files share.
 * discrete_event.c is the life of an operation, discrete_event_stations.c what it queues
 * for, discrete_event_run.c the right to write, and a simulation from set-up to end.
 */
#ifndef SLUICE_DISCRETE_EVENT_STATE_H
#define SLUICE_DISCRETE_EVENT_STATE_H

#include "discrete_event.h"

enum { NOTHING = UINT32_MAX };

enum event_kind {
	EVENT_BURST,	 /* a process: its next burst begins */
	EVENT_OPERATION, /* a process: set up, on to the metadata server */
	EVENT_OPEN,	 /* a process: its flows may open */
	EVENT_CONNECT,	 /* a flow that stalled or was refused tries to open */
	EVENT_PRODUCED,	 /* a unit leaves its process */
	EVENT_SENT,	 /* a unit leaves its node */
	EVENT_RECEIVED,	 /* a unit has reached its server */
	EVENT_CACHED,	 /* a unit is in the server's memory */
	EVENT_SERVED,	 /* a target has done what it was at */
	EVENT_STAGED,	 /* a process: its node's buffer has the operation */
	EVENT_WAKE,	 /* a program: the next of those that are paced may write */
	EVENT_CONTROL,	 /* turns are decided on */
	EVENT_ENDED	 /* a program: its computing is over, too */
};

struct event {
	double time;
	uint64_t number; /* of scheduling: breaks ties */
	uint32_t kind;	 /* enum event_kind */
	uint32_t index;	 /* of the process, flow, unit or target */
};

struct process {
	uint32_t program, rank, node;
	uint32_t operations_left, bursts_left; /* of the burst; after this one */
	uint32_t operations;		       /* of the burst */
	uint32_t operation;		       /* number of its present one */
	uint32_t file_target;		       /* its file's first, of the program's */
	uint32_t flow_count, flows_open;
	uint32_t in_flight;    /* units */
	uint32_t turn;	       /* flow that sends next */
	uint32_t home, on;     /* dispatch: target of its group; where it writes now */
	uint32_t next_waiting; /* dispatch: in its group's queue */
	uint32_t staged;       /* operations in its node's buffer */
	uint32_t is_draining, is_blocked, is_burst_due;
	uint32_t is_held, next_held; /* turns: waits for its program's turn */
	uint32_t is_stopped; /* its program was stopped: what it is at is its last */
	double burst_at;     /* when its next burst begins; INFINITY: by no event */
	double burst_began;
	double copy_clock; /* until when it copies to the buffer */
	double clock;	   /* until when it produces what is sent already */
};

struct flow {
	double unsent;	 /* bytes */
	uint64_t ticket; /* of its operation: they count up as operations open */
	uint32_t process, target;
	uint32_t in_flight, window; /* units */
	uint32_t is_new;	    /* its server has not worked for it yet */
	uint32_t next_commit;	    /* waiting for the same commit */
};

enum unit_kind {
	UNIT_WRITE,	 /* a process waits for it */
	UNIT_WRITE_BACK, /* acknowledged from the cache already */
	UNIT_COMMIT	 /* a list of flows waits for it */
};

struct unit {
	double bytes;
	uint64_t ticket; /* of its operation */
	uint32_t flow;	 /* of a commit: the last of its flows to join (next_commit) */
	uint32_t kind;	 /* enum unit_kind */
	uint32_t next;	 /* in a queue, or free */
	uint32_t target; /* of a write-back: its flow may be on to others */
};

/* Units of one stream that wait at one target. */
struct stream {
	uint32_t head, tail;
	double passed;	     /* shares: s of the target that it has had */
	uint32_t next_ready; /* stream that is served after this one */
	uint32_t is_ready;
};

struct target {
	uint32_t present;     /* unit being served */
	uint32_t stream;      /* the present or last one */
	uint32_t position;    /* the stream at which its head is */
	uint32_t first, last; /* ready streams */
	uint32_t joinable;    /* queued commit that further flows may join, or NOTHING */
	uint32_t joined;      /* flows that it serves */
	double slice_left;    /* bytes */
	double passed;	      /* shares: that of the stream it served last */
};

/* Units one behind the other. */
struct line {
	uint32_t first, last; /* NOTHING: there are none */
};

struct server {
	double link_clock, work_clock, memory_clock; /* until when each is busy */
	double dirty;				     /* bytes in its cache */
	uint32_t established;			     /* flows */
	struct line arrived, cached; /* units that wait for room in it, and in it */
	uint32_t draining;	     /* units on their way to targets */
};

/* The right to write on a target (discrete_event_run.c). */
struct group {
	uint32_t first, last; /* processes that wait for their turn */
	uint32_t waiting;
	uint32_t is_writing;
	uint32_t is_drained; /* none of its own waits, as the coordinator knows */
	double own, foreign; /* bytes accepted, of its own and of other groups */
};

struct program {
	const struct sluice_program *is;
	struct sluice_program_outcome *outcome;
	uint32_t first_process, first_stream;
	uint32_t target_count, flow_count;
	uint32_t writing;   /* processes that have not ended */
	uint32_t bursting;  /* processes in a burst */
	uint32_t collapses; /* its flows can be refused */
	uint32_t turn;	    /* dispatch: group that is asked first */
	uint32_t inquired;  /* dispatch: the lengths of the queues are known */
	double total;	    /* bytes */
	uint32_t in_burst;  /* 1: a burst goes on */
	uint32_t step_left; /* in_step: processes that have not ended it */
	uint32_t lane_mask;
	uint32_t first_held, last_held; /* processes that wait for its turn */
	struct burst burst;
	double burst_began, burst_bytes; /* since when; acknowledged */
	double usual;			 /* burst_usual of a mean of 1 */
	double alone;			 /* B/s, with turns */
	double demand[SLUICE_STATION_COUNT];
	double pace_clock;    /* until when what it was let write lasts */
	double wake_at;	      /* of its EVENT_WAKE; INFINITY: there is none */
	double ends_at;	      /* of its EVENT_ENDED */
	uint32_t *targets;    /* that it may use */
	struct group *groups; /* one for each target that it may use */
	double *target_bytes; /* acknowledged, by target */
};

struct simulation {
	const struct sluice_storage *storage;
	struct program *programs;
	uint32_t program_count, running; /* programs that are no noise */
	double now, stop_share;
	struct burst_control control;
	double busy[SLUICE_STATION_COUNT]; /* s of all targets, links, metadata server */
	uint32_t ended;			   /* program that has, since it was asked */
	struct event *events;
	uint32_t event_count, event_room;
	uint64_t event_number;
	struct process *processes;
	struct flow *flows;
	uint32_t flows_each; /* flows of a process at most */
	double *node_clocks;
	double *node_staged; /* bytes in each node's buffer */
	uint32_t staged;     /* operations in all buffers */
	uint32_t holders;    /* processes in a burst of programs that never yield */
	struct unit *units;
	uint32_t unit_room, free_unit;
	struct stream *streams; /* by target, then stream */
	uint32_t stream_count;	/* of each target; 0 is the commits' */
	struct target *targets;
	struct server *servers;
	uint32_t target_count, server_count, process_count, node_count;
	double metadata_clock;
	uint32_t creating; /* operations whose files are being created */
	uint64_t tickets;
	uint32_t files; /* created or opened: the next one's target */
	uint32_t stopped;
	uint32_t out_of_memory;
};

/* discrete_event_stations.c: the calendar. */
void rq_schedule (struct simulation *s, double time, enum event_kind kind, uint32_t index);
int rq_next_event (struct simulation *s, struct event *out); /* 0: there is none */

/* discrete_event_stations.c: what units queue for. */
uint32_t rq_new_unit (struct simulation *s, uint32_t flow, double bytes,
		      enum unit_kind kind);
void rq_send_unit (struct simulation *s, uint32_t unit);
void rq_unit_produced (struct simulation *s, uint32_t unit);
void rq_unit_sent (struct simulation *s, uint32_t unit);
void rq_unit_received (struct simulation *s, uint32_t unit);
void rq_unit_cached (struct simulation *s, uint32_t unit);
void rq_target_served (struct simulation *s, uint32_t target);
void rq_queue_commit (struct simulation *s, uint32_t flow);

/* discrete_event.c: the life of an operation. */
uint32_t rq_flow_count (const struct program *program, double operations);
uint32_t rq_can_collapse (const struct simulation *s, const struct program *program);
void rq_unit_acknowledged (struct simulation *s, uint32_t flow, double bytes);
void rq_flow_done (struct simulation *s, uint32_t flow);
void rq_begin_operation (struct simulation *s, uint32_t process);
void rq_resume (struct simulation *s, uint32_t process);
void rq_start_program (struct simulation *s, struct program *program, double at);
void rq_stop_program (struct simulation *s, struct program *program);
void rq_schedule_burst (struct simulation *s, uint32_t process, double at);
int rq_step (struct simulation *s, double until); /* one event; 0: none by then */
void rq_stop_if_over (struct simulation *s);	  /* no program writes, nothing is staged */
int64_t rq_run_to_end (struct simulation *s);	  /* events, or -1 without memory */

/* discrete_event_run.c: programs that keep off, or to their part of the targets. */
struct span {
	uint32_t first, count; /* of the targets that a program may use */
};
int rq_stage (struct simulation *s, uint32_t process); /* 0: the operation may be written */
void rq_drained (struct simulation *s, uint32_t process); /* one operation */
void rq_burst_begins (struct simulation *s, uint32_t process);
void rq_burst_ends (struct simulation *s, uint32_t process);
struct span rq_targets_of (const struct simulation *s, const struct program *program);

/* discrete_event_turns.c: bursts that take turns. */
int rq_init_turns (struct simulation *s); /* -1: no memory */
void rq_turn_begins (struct simulation *s, struct program *program);
void rq_turn_ends (struct simulation *s, struct program *program);
/* Whether a process may write bytes now; else it waits for its program's turn, and
 * rq_resume is called for it then. */
int rq_may_write (struct simulation *s, uint32_t process, double bytes);
void rq_wake (struct simulation *s, uint32_t program);
void rq_control (struct simulation *s);
void rq_forget_turn (struct simulation *s, struct program *program); /* it is stopped */
uint32_t rq_lane_end (const struct simulation *s, uint32_t lane); /* its last target + 1 */

/* discrete_event_run.c: the right to write. */
void rq_take_turn (struct simulation *s, uint32_t process);
void rq_give_turn (struct simulation *s, uint32_t process);

static inline struct program *
program_of (struct simulation *s, uint32_t process)
{
	return &s->programs[s->processes[process].program];
}

static inline uint32_t
program_number (const struct simulation *s, const struct program *program)
{
	return (uint32_t)(program - s->programs);
}

static inline struct server *
server_of (struct simulation *s, uint32_t target)
{
	return &s->servers[target % s->server_count];
}

#endif
