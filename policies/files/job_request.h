/*
 * What a user asked Slurm for, in Slurm's terms but without its headers.
 *
 * The plugin fills one from a job description, the simulator from a trace;
 * every rule that turns it into a submission is here, so both decide alike.
 * Texts may be NULL and are only read, never further than SLUICE_TEXT_LIMIT:
 * a script may have 4 MiB, and the caller may hold slurmctld's locks.
 */
#ifndef SLUICE_JOB_REQUEST_H
#define SLUICE_JOB_REQUEST_H

#include "submission.h"

enum { SLUICE_TEXT_LIMIT = 16 * 1024 };

/* Numbers the user did not give are 0. */
struct sluice_request {
	uint32_t uid;
	uint32_t nodes; /* at least */
	uint32_t tasks;
	uint32_t cpus_per_task;
	uint32_t time_limit;	  /* minutes; 0 also when unlimited */
	uint32_t het_component;	  /* from 1; 0: no heterogeneous job */
	uint32_t immediate;	  /* 1: --immediate */
	uint32_t cron;		  /* 1: scrontab */
	uint32_t opt_out;	  /* 1: --no-sluice */
	uint32_t io_dir;	  /* 1: --io-dir */
	uint32_t has_command;	  /* 1: the program that srun or salloc runs */
	uint64_t memory_node_mib; /* --mem */
	uint64_t memory_cpu_mib;  /* --mem-per-cpu */
	int64_t begin;		  /* UTC seconds */
	int64_t deadline;	  /* UTC seconds */
	const char *name;	  /* of the job */
	const char *account;	  /* these three: NULL unless the user gave them */
	const char *partition;	  /* may be a list */
	const char *qos;
	const char *array;	   /* "0-15:4,20%2" */
	const char *licenses;	   /* "a:2,b" */
	const char *tres_per_task; /* "gres/gpu:1,license/a:1" */
	const char *reservation;
	const char *script;	 /* sbatch */
	const char *submit_line; /* the command as typed */
	const char *io_turns;	 /* what stands behind --io-turns; NULL: it was not given */
};

void sluice_submission_of (const struct sluice_request *request,
			   struct sluice_submission *out);

#endif
