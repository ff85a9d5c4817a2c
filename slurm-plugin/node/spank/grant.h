/*
 * What a job gets when it starts: the lane whose token it holds and a directory
 * of its own there.
 */
#ifndef SLUICE_GRANT_H
#define SLUICE_GRANT_H

#include <stdint.h>
#include <sys/types.h>

#include "settings.h"

/*
 * Say something to the administrator, never to the job: in slurmd's log (info),
 * and in srun only with -v, because everything else of its log is the user's
 * stderr.
 */

void report (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

/*
 * What slurmctld says a job holds.
 *
 * It is asked once a job, when that starts: an environment says what was true at
 * submission, or what a user wrote into it, and sluiced may have changed lane or
 * class since. While slurmctld is down the answer takes up to twice Slurm's
 * MessageTimeout to fail.
 *
 * Never ask in a hook that slurmstepd calls as the user: from 24.11 it holds the
 * lock of its authentication meanwhile, and a request ends it and the job.
 */

enum { HOLDING_LICENSES_SIZE = 1025 }; /* Slurm refuses longer ones */

/* What the decision on the job says: the plugin in slurmctld (enforce.h) sets a variable of
 * the job, and may note it in the admin comment, which users cannot write. */
enum holding_turns {
	HOLDING_TURNS_NOT_SAID, /* as it asked for itself */
	HOLDING_TURNS_YES,
	HOLDING_TURNS_NO, /* whatever it asked for */
};

struct holding {
	uint32_t job_id;
	uint32_t restarts;
	int64_t start; /* UTC seconds, of this run of the job */
	int64_t end;   /* the same: when its time limit ends it */
	uint32_t nodes;
	uid_t uid;
	int is_heterogeneous; /* only the leader holds its licences */
	int is_batch, is_running;
	enum holding_turns turns;
	/* Of its lane's targets, by the admin comment alone; count 0: all. */
	uint32_t first_target, target_count;
	char licenses[HOLDING_LICENSES_SIZE];
};

/* -1: slurmctld does not answer, or knows no such job. */
int holding_ask (uint32_t job_id, struct holding *out);

/* Take the tokens off a running job of this user that has no directory on its lane: it may
 * write anywhere, and so it counts from then on. Only root may. */
void holding_give_up (uint32_t job_id, uid_t uid, int argc, char **argv);

enum {
	GRANT_LANE,    /* SLUICE_LANE: the lane's name */
	GRANT_TARGETS, /* SLUICE_TARGETS: how many storage targets the job is on */
	GRANT_DIR,     /* SLUICE_DIR: the job's own directory on them */
	GRANT_JOB_ID,  /* SLUICE_JOB_ID: the job that the others belong to */
	GRANT_VARIABLES,
};

extern const char *const grant_names[GRANT_VARIABLES];

struct grant {
	char values[GRANT_VARIABLES][IO_DIR_SIZE];
};

struct grant_request {
	const struct holding *holding; /* of the effective user's job */
	int argc;		       /* the plugin's arguments in plugstack.conf */
	char **argv;
	const char *io_dir; /* --io-dir as it was given, or NULL */
	/* What the directory's name is made of, as text of GRANT_SEED_SIZE: with the
	 * same seed it is found again. NULL: no other has it. */
	const char *seed;
	/* 1: a step that had another seed may have made the directory */
	int may_find;
	/* 1: not all of its processes would learn of a directory, so it gets none */
	int is_too_late;
};

enum { GRANT_SEED_SIZE = 33 };
/* 0: a fresh one, which no user can guess. */
int grant_make_seed (char out[GRANT_SEED_SIZE]);

enum grant_result {
	GRANT_OBTAINED,
	GRANT_NONE,	/* it holds no token of one lane here */
	GRANT_UNPLACED, /* it has no directory, and may write anywhere; the log says why */
};

/* Make the directory of a job that holds tokens of one lane. All values are set where it is
 * obtained. */
enum grant_result grant_obtain (const struct grant_request *request, struct grant *out);

#endif
