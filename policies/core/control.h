/*
 * The control loop: at every poll, which jobs with tokens wait on, change lanes
 * or is released, and how many tokens each gate lets out.
 *
 * sluiced reads Slurm, calls these functions and carries the verdicts out; a replay does
 * the same with its simulated queue. The state of a job goes in and comes out in an array
 * that the caller keeps from poll to poll.
 *
 *   sluice_control_room   which waiting jobs Slurm could start now, but for their tokens
 *   sluice_control_bound  charges the waits and releases the jobs that are due. It needs
 *                         neither bundle nor snapshot nor history: nothing that can fail
 *                         keeps a job waiting
 *   sluice_control_poll   decides again on jobs near their start and sizes the gates
 *   sluice_control_starts says which jobs to decide on again as they have just started,
 *                         because no token kept them until then
 */
#ifndef SLUICE_CONTROL_H
#define SLUICE_CONTROL_H

#include "gates.h"
#include "record.h"
#include "snapshot.h"

enum {
	SLUICE_CONTROL_MOVES = 3,	/* times that a job's tokens are exchanged */
	SLUICE_CONTROL_DECISIONS = 64,	/* jobs decided on in one poll */
	SLUICE_CONTROL_LIMIT = 16,	/* jobs of a class that one poll lets in */
	SLUICE_CONTROL_BACKGROUND = 16, /* loads without tokens judged one by one */
	SLUICE_CONTROL_PATIENCE = 15,	/* s until a job's decision has been found */
	SLUICE_CONTROL_STALE = 60,	/* s that a decision holds while no job starts */
	SLUICE_CONTROL_START = 10,	/* s in which Slurm starts a job that can start */
	SLUICE_CONTROL_STARTS = 16,	/* jobs decided on in one poll as they started */
	SLUICE_CONTROL_STARTED = 30,	/* s after its start: its record may come late */
	SLUICE_CONTROL_UNSEEN = 3, /* s by which a snapshot was older than a decision */
	SLUICE_CONTROL_RETRY = 60, /* s between attempts at a release, at most */
	/* Releases that one poll commands: each is a request that slurmctld writes down. */
	SLUICE_CONTROL_RELEASES = 50,
};

enum sluice_control_state {
	SLUICE_CONTROL_ABSENT, /* the element is free */
	SLUICE_CONTROL_LATER,  /* held, or depends on a time or on another job */
	SLUICE_CONTROL_WAITS,  /* eligible */
	SLUICE_CONTROL_RUNS,   /* or is suspended: it holds its tokens */
};

enum sluice_control_flags {
	SLUICE_CONTROL_ARRAY = 1 << 0,	  /* tasks of an array */
	SLUICE_CONTROL_RECORDED = 1 << 1, /* the decision made at its submission is known */
	SLUICE_CONTROL_GRANTED = 1 << 2,  /* and gave it tokens */
	SLUICE_CONTROL_PREDICTED = 1 << 3, /* pressure is known */
	SLUICE_CONTROL_NEXT = 1 << 4,	   /* Slurm's reason: it may start next */
	SLUICE_CONTROL_QUEUES = 1 << 5,	   /* Slurm's reason: it waits for nodes alone */
	SLUICE_CONTROL_ANYWHERE = 1 << 6,  /* it names several partitions */
	SLUICE_CONTROL_ROOM = 1 << 7,	   /* it could start now, but for its tokens */
	SLUICE_CONTROL_SPARED = 1 << 8,	   /* the site does not enforce for it (any more) */
};

enum sluice_verdict_action {
	SLUICE_VERDICT_LEAVE,
	SLUICE_VERDICT_EXCHANGE, /* its tokens for others */
	SLUICE_VERDICT_RELEASE,	 /* take its tokens off */
};

/* X(NAME, json_name, sentence): why a job's tokens are taken off. */
#define SLUICE_RELEASES(X)                                                                 \
	X (NONE, "none", "it keeps its tokens")                                            \
	X (SWITCHED_OFF, "switched_off", "Sluice is switched off")                         \
	X (UNDEFINED, "undefined",                                                         \
	   "slurm.conf defines no such token, or fewer than 100,000")                      \
	X (FOREIGN, "foreign", "Sluice gave it no tokens: somebody wrote them")            \
	X (UNKNOWN, "unknown", "no decision was found that gave it tokens")                \
	X (MODE, "mode", "the site does not enforce for it any more")                      \
	X (MAX_DELAY, "max_delay", "it has waited for MaxDelay seconds")                   \
	X (CONFINED, "confined",                                                           \
	   "on its lanes it is slower than Tolerance even alone, so no gate could let "    \
	   "it in")                                                                        \
	X (LEFT, "left", "decided again: it needs no token")                               \
	X (SHARING, "sharing", "decided again: sharing costs less than waiting")

#define SLUICE_ENUM_RELEASE(name, json, text) SLUICE_RELEASE_##name,
enum sluice_release { SLUICE_RELEASES (SLUICE_ENUM_RELEASE) SLUICE_RELEASE_COUNT };
const char *sluice_release_name (unsigned int release);
const char *sluice_release_text (unsigned int release);

/* What the loop remembers of a job; all 0 for a new one. */
struct sluice_control_memory {
	double fits;	   /* clock since which there is room for it; 0: there is none */
	uint32_t priority; /* Slurm's when it was seen first */
	uint32_t tries;	   /* releases commanded, in vain so far */
	double since;	   /* clock of the first poll that saw it; 0: none did */
	double polled;	   /* clock of the last one */
	double waited;	   /* s that it was charged for: its tokens may have kept it */
	double decided;	   /* clock of the latest decision; 0: none since submission */
	double again;	   /* clock at which the conflict should be over */
	double retry;	   /* clock before which no release is tried again */
	uint64_t version;  /* of the co-runners it was decided alongside */
	uint32_t moves;	   /* exchanges */
	uint32_t waits;	   /* 1: decided to wait until the conflict is over */
	uint32_t reason;   /* enum sluice_reason of the latest decision */
	uint32_t reserved;
};

struct sluice_control_verdict {
	uint32_t action;	     /* enum sluice_verdict_action */
	uint32_t release;	     /* enum sluice_release: why it is due, also while
				      * its release has to wait */
	struct sluice_tokens tokens; /* EXCHANGE: that it should have */
};

/* One job of the queue. The caller fills in all but memory and verdict. */
struct sluice_control_job {
	uint32_t job_id;
	uint32_t array_id; /* 0: no array */
	uint32_t state;	   /* enum sluice_control_state */
	uint32_t flags;	   /* enum sluice_control_flags */
	/* lane_mask 0: it has no tokens; klass tells what it does all the same */
	struct sluice_tokens tokens;
	uint32_t tasks;	    /* jobs like this: an array's tasks that wait; else 1 */
	uint32_t partition; /* index of its room */
	uint32_t nodes;
	uint32_t cpus;
	uint32_t priority; /* Slurm's: the higher comes first */
	uint32_t reserved;
	int64_t submit;	  /* UTC seconds, as the next two */
	int64_t eligible; /* when only resources kept it waiting; 0: not yet told */
	int64_t start;	  /* of a running job */
	struct sluice_control_memory memory;
	struct sluice_control_verdict verdict;
	struct sluice_pressure
	    pressure; /* on the lanes of its tokens; without any, on all */
};

/* What a partition has room for now. */
struct sluice_control_room {
	uint32_t nodes;	       /* with idle CPUs */
	uint32_t cpus;	       /* idle */
	uint32_t is_unlimited; /* 1: nodes are shared, or unknown */
	uint32_t reserved;
};

/* What else a poll starts from. Tables are by class and lane. */
struct sluice_control_facts {
	double clock;	  /* s since any moment but 0; never goes back */
	int64_t now;	  /* UTC seconds */
	double max_delay; /* s */
	double grace;	  /* s beyond max_delay until a gate is given up: two polls */
	uint32_t is_off;
	uint32_t releases; /* that may be commanded; counted down */
	uint32_t sharing;  /* the job that was released last to share; kept by the loop */
	uint32_t reserved;
	/* of the jobs with tokens, set by sluice_control_bound: */
	double charged;	  /* s that it charged them, all together */
	double longest;	  /* s that the one waited that has waited longest */
	double shared;	  /* clock then; 0: none was; kept by the loop */
	uint64_t version; /* of the co-runners in the situation */
	/* of the records of decisions: */
	uint64_t boot;
	uint64_t number; /* of the latest one; counted up */
	uint64_t config_checksum;
	char cluster[SLUICE_NAME_SIZE];
	uint32_t totals[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES]; /* in slurm.conf */
	uint32_t free[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES];   /* by Slurm's own count */
};

struct sluice_control_gates {
	uint32_t tokens[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES]; /* held + let out */
	/* 1: a job waited too long behind it, so it is not imposed */
	uint32_t is_given_up[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES];
};

/* A decision made again, and its job. */
struct sluice_control_decision {
	uint32_t job; /* index into the jobs */
	uint32_t reserved;
	struct sluice_record record;
};

/* Where polls are worked out, and the answers of the last one, for up to `capacity`
 * jobs. NULL: no memory. */
struct sluice_control;
struct sluice_control *sluice_control_create (uint32_t capacity);
void sluice_control_destroy (struct sluice_control *control); /* NULL is fine */

/*
 * Set SLUICE_CONTROL_ROOM of each job with tokens that waits, for which its partition has
 * room now: Slurm goes through the queue by priority, and what jobs in front could use is
 * taken. A job in front that lacks a token uses nothing, nor does one that could have
 * started for SLUICE_CONTROL_START seconds. What jobs hold that overtook it since it
 * became eligible, it could have had. In doubt there is room.
 */
void sluice_control_room (struct sluice_control *control, struct sluice_control_job *jobs,
			  uint32_t n, const struct sluice_control_room *rooms,
			  uint32_t room_count, const struct sluice_control_facts *facts);

/*
 * Charge each eligible job with tokens for the time since the last poll, if it could have
 * started but for them: there is room, and Slurm has not all of its tokens free. Reset all
 * verdicts, then release the jobs that are due, those first that were never tried and have
 * waited longest. A release shows in the tokens of the next poll; until it does, the job is
 * tried again, ever more seldom, and takes no job's place.
 */
void sluice_control_bound (struct sluice_control *control, struct sluice_control_job *jobs,
			   uint32_t n, struct sluice_control_facts *facts);

/*
 * Which jobs sluice_control_poll is to decide on, in order: of no others it has to know
 * what they were submitted with. Returns how many there are.
 */
uint32_t sluice_control_undecided (struct sluice_control *control,
				   const struct sluice_control_job *jobs, uint32_t n,
				   const struct sluice_control_facts *facts,
				   uint32_t out[SLUICE_CONTROL_DECISIONS]);

/*
 * After sluice_control_bound: decide again on jobs near their start, exchange or release
 * their tokens by what came out, and size the gates for the jobs as they are.
 * submissions[i] is what jobs[i] was submitted with; NULL: unknown, and nothing is decided.
 * The situation has a snapshot.
 */
void sluice_control_poll (struct sluice_control *control, struct sluice_control_job *jobs,
			  const struct sluice_submission *const *submissions, uint32_t n,
			  const struct sluice_situation *situation,
			  const struct sluice_config *config,
			  struct sluice_control_facts *facts,
			  struct sluice_control_gates *out);

/*
 * Where nothing is enforced, no gate lets jobs in one by one: those of one second start
 * together, and the decision at submission saw none of them, nor any that came or went
 * while the job waited. So each that matters is decided on again when it has started.
 *
 * Puts the running jobs that matter into order, which has room for n, as they would have
 * come through a gate: by start, priority and number. Returns how many there are; puts the
 * places of those that are to be decided on, each alongside those in front of it, into due,
 * and their number into *due_count. No job is due twice.
 */
uint32_t sluice_control_starts (struct sluice_control *control,
				struct sluice_control_job *jobs, uint32_t n,
				const struct sluice_control_facts *facts, uint32_t *order,
				uint32_t due[SLUICE_CONTROL_STARTS], uint32_t *due_count);

/* Decide on a job again; the record stays until the next decision. */
const struct sluice_record *sluice_control_decide (
    struct sluice_control *control, uint32_t job,
    const struct sluice_submission *submission, const struct sluice_situation *situation,
    const struct sluice_config *config, struct sluice_control_facts *facts);

/* Which jobs have an action in their verdict: since the last sluice_control_bound, in the
 * order of commanding. Returns how many there are; sets *jobs to their indices. */
uint32_t sluice_control_actions (const struct sluice_control *control,
				 const uint32_t **jobs);

/* The holders of tokens, as a snapshot tells them: by id, an array once, with the longest
 * wait of its tasks. out has room for n. Returns how many there are. */
uint32_t sluice_control_holders (struct sluice_control *control,
				 const struct sluice_control_job *jobs, uint32_t n,
				 struct sluice_holder *out);

/* What the last poll decided, in the order of deciding. */
uint32_t sluice_control_decision_count (const struct sluice_control *control);
const struct sluice_control_decision *
sluice_control_decision (const struct sluice_control *control, uint32_t i);

#endif
