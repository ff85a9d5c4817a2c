/*
 * What is known of a job at the moment it is submitted. Training and serving call the same
 * functions.
 */
#ifndef SLUICE_SUBMISSION_H
#define SLUICE_SUBMISSION_H

#include "base.h"

/*
 * What a user gave a script or a program: the words behind it on the submit line.
 *
 * They often say how much a job writes. Options of sbatch, srun and salloc are none.
 */

enum { SLUICE_MAX_NUMBERS = 3 };

struct sluice_arguments {
	uint64_t hash; /* of all of them, also of none; 0: the line is not known */
	/* The first ones, of `16M` 16777216; 0: there is none. */
	double numbers[SLUICE_MAX_NUMBERS];
};

enum sluice_launcher {
	SLUICE_LAUNCHER_UNKNOWN,
	SLUICE_LAUNCHER_SBATCH,
	SLUICE_LAUNCHER_SRUN,
	SLUICE_LAUNCHER_SALLOC,
	SLUICE_LAUNCHER_COUNT,
};

enum sluice_submission_flags {
	SLUICE_SUBMIT_IMMEDIATE = 1 << 0,   /* --immediate */
	SLUICE_SUBMIT_PTY = 1 << 1,	    /* srun --pty */
	SLUICE_SUBMIT_CRON = 1 << 2,	    /* scrontab */
	SLUICE_SUBMIT_RESERVATION = 1 << 3, /* --reservation */
	SLUICE_SUBMIT_DEADLINE = 1 << 4,    /* --deadline or --begin */
	SLUICE_SUBMIT_ARRAY = 1 << 5,
	SLUICE_SUBMIT_HET = 1 << 6,	    /* part of a heterogeneous job */
	SLUICE_SUBMIT_HET_LATER = 1 << 7,   /* not its first component */
	SLUICE_SUBMIT_OR_LICENSES = 1 << 8, /* licences with `|` or per task */
	SLUICE_SUBMIT_OPT_OUT = 1 << 9,	    /* --no-sluice */
	SLUICE_SUBMIT_TEST_ONLY = 1 << 10,
	SLUICE_SUBMIT_IO_DIR = 1 << 11,	  /* --io-dir: Sluice places its output */
	SLUICE_SUBMIT_IO_TURNS = 1 << 12, /* --io-turns */
	SLUICE_SUBMIT_NO_TURNS = 1 << 13, /* --io-turns=no */
};

/* Numbers the user did not give are 0. Text is cut to SLUICE_NAME_SIZE - 1. */
struct sluice_submission {
	uint32_t uid;
	uint32_t launcher; /* enum sluice_launcher */
	uint32_t flags;	   /* enum sluice_submission_flags */
	uint32_t nodes;
	uint32_t tasks;
	uint32_t cpus_per_task;
	uint32_t time_limit; /* minutes */
	uint32_t array_tasks;
	uint32_t license_length;   /* bytes of the licences that the user asked for */
	uint32_t lot;		   /* sluice_submission_lot; 0: not drawn yet */
	uint64_t memory_mib;	   /* a node */
	uint64_t script_signature; /* sluice_script_signature; 0: no script */
	uint64_t submit_line_hash; /* sluice_hash_text of the submit line */
	struct sluice_arguments arguments;
	char name[SLUICE_NAME_SIZE];
	char account[SLUICE_NAME_SIZE];
	char partition[SLUICE_NAME_SIZE]; /* as the user gave it: may be a list */
	char qos[SLUICE_NAME_SIZE];
};

/*
 * What tells a submission at a time (UTC seconds) from others, as one number, never 0. It
 * decides whether the job is held out, and stays with it: later decisions keep the lot of
 * the first. Of one user, equal submissions in one second share it.
 */
uint32_t sluice_submission_lot (const struct sluice_submission *submission, int64_t now);

/*
 * What a decision depends on: the submission with its name's stem for a name, and no
 * submit line nor lot. Of two with the same question all else in a decision is the same
 * too.
 */
void sluice_submission_question (const struct sluice_submission *submission,
				 struct sluice_submission *out);

/* Lower case, each run of digits becomes `#`: `Run_0042` and `run_43` are one
 * application. out holds SLUICE_NAME_SIZE bytes. */
void sluice_name_stem (const char *name, char *out);

/* Key of an application table entry; 0 when the submission lacks a part of it.
 * evidence is one of USER_SCRIPT, USER_NAME, NAME, USER_ARGUMENTS. */
uint64_t sluice_application_key (const struct sluice_submission *submission,
				 uint32_t evidence);

#endif
