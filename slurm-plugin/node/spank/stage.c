#include "stage.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "directory.h"
#include "options.h"
#include "stage_end.h"

/* Beyond the bound, for what ends the drainer. */
enum { GRACE_S = 90, START_MS = 10000 };
/* NO_VAL16 and INFINITE16, as they are printed */
enum { NO_TIMEOUT = 65534 };

/* Weak: a Slurm program that does not have it must still load us. */
extern __typeof__ (slurm_load_ctl_conf) slurm_load_ctl_conf __attribute__ ((weak));
extern __typeof__ (slurm_print_ctl_conf) slurm_print_ctl_conf __attribute__ ((weak));

/* Of the script's job, from init_post_opt to user_init; a slurmstepd serves one step. */
static char prepared[SETTINGS_PATH_SIZE + 16]; /* STAGE/JOBID; empty: not staged */
static enum options_stage wanted;

static void
keep_quiet (const char *argument, const char *why)
{
	(void)argument;
	(void)why;
}

/* ---- as root, before the job ---- */

/* What slurm.conf says of a timeout, in seconds; 0: none. By its text: the structure
 * changes with Slurm. */
static uint32_t
timeout_in (const char *text, const char *key)
{
	const char *found = strstr (text, key);
	if (!found || !(found = strchr (found, '=')))
		return 0;
	return (uint32_t)strtoul (found + 1, NULL, 10);
}

/* It has another name from a version after 24.11 on. */
static void
free_conf (void *conf)
{
	void (*release) (void *) = NULL;
	*(void **)&release = dlsym (RTLD_DEFAULT, "slurm_free_ctl_conf");
	if (!release)
		*(void **)&release = dlsym (RTLD_DEFAULT, "slurm_free_conf");
	if (conf && release)
		release (conf);
}

/* Slurm would kill the epilog and drain the node. -1: it does not say. */
static int
epilog_may_take (uint32_t seconds)
{
	void *conf = NULL; /* its type had another name before 20.11 */
	char *text = NULL;
	size_t size;
	if (!slurm_load_ctl_conf || !slurm_print_ctl_conf)
		return -1;
	FILE *file = open_memstream (&text, &size);
	if (!file)
		return -1;
	int result
	    = slurm_load_ctl_conf ((time_t)0, (void *)&conf) == SLURM_SUCCESS ? 1 : -1;
	if (result == 1)
		slurm_print_ctl_conf (file, conf);
	fclose (file);
	static const char *const keys[] = { "\nPrologEpilogTimeout ", "\nEpilogTimeout " };
	for (size_t i = 0; result == 1 && i < sizeof keys / sizeof keys[0]; i++) {
		uint32_t limit = timeout_in (text, keys[i]);
		if (limit && limit < seconds && limit < NO_TIMEOUT)
			result = 0;
	}
	free_conf (conf);
	free (text);
	return result;
}

/* Users cannot exchange what lies in a directory of root's. */
static const char *
make_room (const struct settings *settings, const struct holding *job, gid_t gid)
{
	struct stat found;
	char name[16];
	const char *why = NULL;

	int stage = open (settings->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (stage < 0 || fstat (stage, &found) < 0)
		why = strerror (errno);
	else if (found.st_uid != geteuid () || found.st_mode & 022)
		why = "others than root may write there";
	snprintf (name, sizeof name, "%" PRIu32, job->job_id);
	if (!why && mkdirat (stage, name, 0711) < 0)
		why = errno == EEXIST ? "an earlier run has left files there"
				      : strerror (errno);
	int made
	    = why ? -1
		  : openat (stage, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* whatever slurmstepd's umask is */
	if (!why && (made < 0 || fchmod (made, 0711) < 0))
		why = strerror (errno);
	static const char *const parts[] = { "data", "state" };
	for (size_t i = 0; !why && i < sizeof parts / sizeof parts[0]; i++)
		if (mkdirat (made, parts[i], 0700) < 0
		    || fchownat (made, parts[i], job->uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
			why = strerror (errno);
	if (made >= 0)
		close (made);
	if (stage >= 0)
		close (stage);
	return why;
}

void
stage_prepare (spank_t spank, int argc, char **argv, const struct holding *job)
{
	struct settings settings;
	gid_t gid;
	const char *why = NULL;

	wanted = options_io_stage (spank);
	if (wanted == OPTIONS_STAGE_NO || job->job_id == 0)
		return;
	settings_read (argc, argv, &settings, keep_quiet);
	if (!settings.stage[0])
		why = "plugstack.conf has no stage=";
	else if (job->nodes != 1 || job->is_heterogeneous)
		why = "only jobs of one node are staged";
	else if (access (settings.drain, X_OK) < 0)
		why = "sluice-drain is not there";
	else if (epilog_may_take (settings.stage_bound_s + GRACE_S) != 1)
		why = "PrologEpilogTimeout is below the bound of stage=";
	else if (spank_get_item (spank, S_JOB_GID, &gid) != ESPANK_SUCCESS)
		why = "Slurm does not say the group";
	else
		why = make_room (&settings, job, gid);
	if (why)
		report ("job %" PRIu32 " is not staged: %s", job->job_id, why);
	else
		snprintf (prepared, sizeof prepared, "%s/%" PRIu32, settings.stage,
			  job->job_id);
}

/* ---- as the user, when the job begins ---- */

struct start {
	uid_t uid;
	char state[SETTINGS_PATH_SIZE + 32];
	const char *to, *keep;
	const char *const *words;
};

/* Its number is known to job_epilog by a file. */
#define RUN "echo $$ > pid; exec \"$0\" \"$@\" 2>> said"

static int
write_file (const char *name, const char *text)
{
	int fd = open (name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;
	int result = write (fd, text, strlen (text)) == (ssize_t)strlen (text) ? 0 : -1;
	return close (fd) == 0 ? result : -1;
}

/* The child of the child; the pipe's end is closed by a successful exec. */
static void
run (int report_fd, const struct start *start)
{
	static char *const environment[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };

	if (process_detach (report_fd) == 0 && process_become (start->uid) == 0
	    && chdir (start->state) == 0 && write_file ("to", start->to) == 0
	    && (!start->keep || write_file ("keep", start->keep) == 0))
		execve (start->words[0], (char *const *)start->words, environment);
	_exit (write (PROCESS_FD, "", 1) == 1 ? 1 : 2);
}

static int
start_drainer (const struct start *start)
{
	int ends[2], result = -1;
	char failed;

	if (pipe2 (ends, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork ();
	if (pid == 0) {
		if (fork () == 0)
			run (ends[1], start);
		_exit (0);
	}
	close (ends[1]);
	struct pollfd ended = { .fd = ends[0], .events = POLLIN };
	if (pid > 0 && waitpid (pid, NULL, 0) == pid && poll (&ended, 1, START_MS) == 1)
		result = read (ends[0], &failed, 1) == 0 ? 0 : -1;
	close (ends[0]);
	return result;
}

void
stage_start (spank_t spank, int argc, char **argv, char directory[IO_DIR_SIZE])
{
	struct settings settings;
	struct start start = { .uid = geteuid (), .to = directory };
	char local[sizeof prepared + 16], rate[24];

	if (!prepared[0])
		return;
	settings_read (argc, argv, &settings, keep_quiet);
	snprintf (local, sizeof local, "%s/data", prepared);
	snprintf (start.state, sizeof start.state, "%s/state", prepared);
	snprintf (rate, sizeof rate, "%" PRIu64, settings.stage_rate);
	const char *const words[] = {
		"/bin/sh",
		"-c",
		RUN,
		settings.drain,
		"--from",
		local,
		"--to",
		directory,
		"--journal",
		"journal",
		settings.stage_rate ? "--rate" : NULL,
		rate,
		NULL,
	};
	start.words = words;
	start.keep = wanted == OPTIONS_STAGE_KEEP ? "keep" : NULL;
	prepared[0] = '\0';
	if (start_drainer (&start) < 0
	    || spank_setenv (spank, STAGED_TO_VARIABLE, directory, 1) != ESPANK_SUCCESS) {
		report ("the drainer of %s does not start: its job is not staged", local);
		return;
	}
	snprintf (directory, IO_DIR_SIZE, "%s", local);
}

/* ---- as root, when the job has ended ---- */

void
stage_end (spank_t spank, int argc, char **argv)
{
	struct settings settings;
	uint32_t job_id;
	uid_t uid;
	char path[SETTINGS_PATH_SIZE + 16];

	settings_read (argc, argv, &settings, keep_quiet);
	if (!settings.stage[0]
	    || spank_get_item (spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS
	    || spank_get_item (spank, S_JOB_UID, &uid) != ESPANK_SUCCESS)
		return;
	snprintf (path, sizeof path, "%s/%" PRIu32, settings.stage, job_id);
	int fd = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	switch (stage_finish (fd, path, uid, &settings)) {
	case STAGE_DRAINED:
		break;
	case STAGE_KEPT:
		report ("job %" PRIu32 ": its files are drained, and stay in %s", job_id,
			path);
		break;
	case STAGE_LEFT:
		report ("job %" PRIu32 ": files are only in %s/data; state/said says why",
			job_id, path);
		break;
	}
	close (fd);
}
