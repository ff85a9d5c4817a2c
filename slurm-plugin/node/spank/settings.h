/*
 * The plugin's arguments in plugstack.conf, the only configuration it has: on
 * configless clusters a compute node gets no other file.
 *
 *   backend=NAME      directory (the default), moosefs or lustre
 *   lane=NAME:PATH:TARGETS[:PLACEMENT]     one a lane, as in sluice.conf
 *       PATH          where the jobs' directories are made; jobs' users may
 *                     write there, and as in /tmp it has the sticky bit
 *       TARGETS       how many storage targets the lane has
 *       PLACEMENT     moosefs: the storage class; lustre: a pool, or a list of
 *                     OST indices such as 0,1,2 or 0-3; see below
 *   command=PATH      the backend's command, if it is not in its usual place
 *   turns=PATH        libsluice_turns.so on the compute nodes, for jobs with --io-turns
 *   turns_on=PATH       the mount point of a file system that turns are taken on; up to 16
 *   turns_socket=PATH   where the node's agent listens, if not in its usual place
 *   place=all           new files of every job go where no burst is under way, as with
 *                       --io-place
 *   stage=DIR[:RATE[:BOUND]]  where jobs with --io-stage write on the node; each drains at
 *                       most RATE bytes a second, and at most BOUND seconds at its end
 *   drain=PATH          sluice-drain, if not in its usual place
 *   timeout=SECONDS   how long that command may take, 1 to 600, 10 by default
 *
 * An argument that makes no sense is left out and reported; the rest counts.
 *
 * A job with a block (place=FIRST+COUNT in its admin comment) is put on these targets of
 * its lane, numbered from 0, where PLACEMENT says how:
 *
 *   lustre, a list     the list's entries FIRST to FIRST+COUNT-1, where it names as many
 *                      OSTs as the lane has TARGETS
 *   lustre, pool:NAME  the pool NAME-FIRST-COUNT; jobs without a block get the pool NAME
 *   moosefs, class:NAME  the class NAME-FIRST-COUNT, likewise
 *   directory          PATH/tFIRST, for a COUNT of 1
 *
 * Whatever does not fit puts the job on its lane as a whole.
 */
#ifndef SLUICE_SETTINGS_H
#define SLUICE_SETTINGS_H

#include "base.h"
#include "page.h"

enum {
	SETTINGS_PATH_SIZE = 256,
	SETTINGS_SOCKET_SIZE = 108, /* sun_path */
	SETTINGS_FILE_SYSTEMS = 16,
	SETTINGS_PLACEMENT_SIZE = 4096, /* a list of 512 OSTs */
};

struct backend;

struct lane {
	char name[SLUICE_NAME_SIZE];
	char path[SETTINGS_PATH_SIZE];
	char placement[SETTINGS_PLACEMENT_SIZE];
	int has_named_blocks; /* placement was pool:NAME or class:NAME */
	uint32_t targets;
};

/* A lane as one job is put on it: its targets are a block's, or all. */
struct placed_lane {
	char path[SETTINGS_PATH_SIZE];
	char placement[SETTINGS_PLACEMENT_SIZE];
	uint32_t targets;
	int is_block;
};

struct settings {
	const struct backend *backend;
	char command[SETTINGS_PATH_SIZE];	 /* empty: the backend needs none */
	char turns[SETTINGS_PATH_SIZE];		 /* empty: no job takes turns */
	char turns_socket[SETTINGS_SOCKET_SIZE]; /* empty: the agent's usual place */
	char turns_on[SETTINGS_FILE_SYSTEMS][SETTINGS_PATH_SIZE];
	uint32_t turns_on_count;
	int places_all;
	/* Where staged jobs write on the node; empty: none is staged. */
	char stage[SETTINGS_PATH_SIZE];
	uint64_t stage_rate;		/* bytes a second of one drain; 0: any */
	uint32_t stage_bound_s;		/* how long a job's end may take at most */
	char drain[SETTINGS_PATH_SIZE]; /* sluice-drain */
	uint32_t timeout_s;
	uint32_t lane_count;
	struct lane lanes[SLUICE_MAX_LANES];
};

/* Called with each argument that is left out, and why. */
typedef void settings_complain (const char *argument, const char *why);

void settings_read (int argc, char **argv, struct settings *settings,
		    settings_complain *complain);

/*
 * Storage backends: how a fresh, empty directory is put on the targets of a
 * lane, so that all files made below it land there.
 */

enum { BACKEND_WORDS = 8 }; /* of the longest command, with its NULL */

struct backend {
	const char *name;
	/* The usual place of its command; NULL: being below the lane's path is
	 * placement enough. */
	const char *command;
	/* The words behind the command, which runs in the fresh directory: an open
	 * directory cannot be exchanged for another, a path could. count: of the targets of
	 * a block, as text; NULL: there is none. */
	void (*words) (const char *placement, const char *count, const char *words[]);
	/* What puts a job on these targets; returns -1 where nothing does. */
	int (*targets) (const struct lane *lane, const struct sluice_turns_targets *targets,
			struct placed_lane *out);
	/* 1: a directory's layout may change while a job runs, and that helps. MooseFS
	 * places files better itself (docs/evidence/placement-measured.md). */
	int is_followed;
};

/* These targets of the lane. -1: they cannot be had. */
int lane_place_on (const struct settings *settings, const struct lane *lane,
		   const struct sluice_turns_targets *targets, struct placed_lane *out);

/* The targets first to first + count - 1 of the lane; where count is 0 or they cannot be
 * had, the lane as a whole. */
void lane_place (const struct settings *settings, const struct lane *lane, uint32_t first,
		 uint32_t count, struct placed_lane *out);

/* Fill words with a NULL-terminated command line that points into settings, placed
 * and count, or with a NULL alone where the backend needs no command. */
void backend_command (const struct settings *settings, const struct placed_lane *placed,
		      char count[16], const char *words[BACKEND_WORDS]);

/*
 * Tokens among a job's licences: `sl0_stream` is a token of the lane sl0 and the
 * class stream.
 */

/*
 * The lane whose tokens the licences hold, as slurmctld reports them: entries
 * NAME[:COUNT] between commas or semicolons. NULL where there is no single one:
 *
 *   - no token, or only tokens of lanes that are not ours;
 *   - tokens of several lanes: such a job's output is not confined, it holds a
 *     token of each lane it may write to;
 *   - alternatives (`a|b`, from 25.05): which one it got is not said.
 *
 * licenses may be NULL. Licences of a remote server (NAME@SERVER) are no tokens.
 */
const struct lane *token_lane (const char *licenses, const struct settings *settings);

/* The licences but for tokens, as they stand; out has room for all of them. */
void token_remove (const char *licenses, const struct settings *settings, char *out);

/*
 * The value of --io-dir.
 */

enum { IO_DIR_SIZE = 1024 };

/* A path for a directory that does not exist yet: absolute, without `.` and `..`
 * as last part. `%j` stands for the job's id, `%%` for a percent sign. Trailing
 * slashes are dropped. out may be NULL. 0, or -1 for a text that makes no sense. */
int io_dir_parse (const char *text, uint32_t job_id, char out[IO_DIR_SIZE]);

#endif
