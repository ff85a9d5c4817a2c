#include "stage_end.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_GROUPS = 1024, REMOVAL_S = 60, GRACE_S = 10 };

static int64_t
now_s (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void
nap (void)
{
	nanosleep (&(struct timespec){ .tv_nsec = 100000000 }, NULL);
}

/* 1: it ended in time. Killed where it did not. */
static int
await (pid_t pid, int64_t deadline, int last_signal, int *status)
{
	while (waitpid (pid, status, WNOHANG) == 0) {
		if (now_s () >= deadline) {
			kill (pid, last_signal);
			for (int i = 0; i < 50 && waitpid (pid, status, WNOHANG) == 0; i++)
				nap ();
			kill (pid, SIGKILL);
			return 0;
		}
		nap ();
	}
	return 1;
}

/* ---- as the user, in the job's directory ---- */

/* Of a small file of the user's own; -1: there is none, or no number. */
static long
number_in (const char *name)
{
	char text[24] = "", *end;
	int fd = open (name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t got = read (fd, text, sizeof text - 1);
	close (fd);
	long number = got > 0 ? strtol (text, &end, 10) : -1;
	return got > 0 && end > text && *end == '\n' && number >= 0 ? number : -1;
}

/* A drainer locks what it drains. */
static int
is_at_work (void)
{
	int fd = open ("data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int result = fd >= 0 && flock (fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	if (fd >= 0)
		close (fd);
	return result;
}

/* Its number may be another program's by now. */
static void
tell_drainer (int number)
{
	char path[40], name[24] = "";
	long pid = number_in ("state/pid");

	snprintf (path, sizeof path, "/proc/%ld/comm", pid);
	int fd = pid > 1 ? open (path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0 && read (fd, name, sizeof name - 1) > 0
	    && strcmp (name, "sluice-drain\n") == 0)
		kill ((pid_t)pid, number);
	if (fd >= 0)
		close (fd);
}

static int
read_destination (char to[IO_DIR_SIZE])
{
	int fd = open ("state/to", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read (fd, to, IO_DIR_SIZE - 1);
	if (fd >= 0)
		close (fd);
	to[got > 0 ? got : 0] = '\0';
	return got > 0 ? 0 : -1;
}

static void
execute (const struct settings *settings, const char *path, const char *to)
{
	static char *const environment[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };
	char from[SETTINGS_PATH_SIZE + 32], rate[24];
	int said = open ("state/said", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);

	snprintf (from, sizeof from, "%s/data", path);
	snprintf (rate, sizeof rate, "%" PRIu64, settings->stage_rate);
	const char *const words[] = { settings->drain,
				      "--once",
				      "--from",
				      from,
				      "--to",
				      to,
				      "--journal",
				      "journal",
				      settings->stage_rate ? "--rate" : NULL,
				      rate,
				      NULL };
	if (said >= 0 && dup2 (said, 2) == 2 && chdir ("state") == 0)
		execve (words[0], (char *const *)words, environment);
	_exit (127);
}

/* It goes on by the journal of the one before. 0: all is drained. */
static int
drain_again (const struct settings *settings, const char *path, const char *to,
	     int64_t deadline)
{
	int status = -1;
	pid_t pid = fork ();
	if (pid == 0)
		execute (settings, path, to);
	if (pid < 0 || !await (pid, deadline, SIGINT, &status))
		return -1;
	return WIFEXITED (status) && WEXITSTATUS (status) == 0 ? 0 : -1;
}

/* One more looks at all of it: the first may have ended before the job did. */
static int
end_drainer (const struct settings *settings, const char *path, const char *to,
	     int64_t deadline)
{
	while (now_s () < deadline) {
		if (is_at_work ())
			tell_drainer (SIGTERM);
		else if (drain_again (settings, path, to, deadline) == 0)
			return 0;
		nap ();
	}
	if (is_at_work ())
		tell_drainer (SIGINT);
	return -1;
}

/* What it leaves is seen by rmdir. */
static void
remove_files (int64_t deadline)
{
	int status;
	pid_t pid = fork ();
	if (pid == 0) {
		execl ("/bin/rm", "rm", "-rf", "--", "data", "state", (char *)NULL);
		_exit (127);
	}
	if (pid > 0)
		await (pid, deadline, SIGTERM, &status);
}

static enum stage_result
finish (const struct settings *settings, const char *path)
{
	int64_t deadline = now_s () + settings->stage_bound_s;
	struct stat keep;
	char to[IO_DIR_SIZE];

	/* the job never began, or nothing tells where its files go: rmdir finds whether
	 * there are any */
	if (read_destination (to) < 0)
		return STAGE_DRAINED;
	if (end_drainer (settings, path, to, deadline) < 0)
		return STAGE_LEFT;
	if (lstat ("state/keep", &keep) == 0)
		return STAGE_KEPT;
	remove_files (now_s () + REMOVAL_S);
	return STAGE_DRAINED;
}

/* ---- as root ---- */

/* For good, and looked at: a process that could become root again must not go on. */
static int
become (uid_t uid, gid_t gid, const gid_t *groups, int count)
{
	uid_t real, effective, saved;
	return setgroups ((size_t)count, groups) == 0 && setresgid (gid, gid, gid) == 0
		       && setresuid (uid, uid, uid) == 0
		       && getresuid (&real, &effective, &saved) == 0 && real == uid
		       && effective == uid && saved == uid
		   ? 0
		   : -1;
}

static void
work (int job, const char *path, const struct settings *settings, const struct stat *data,
      const gid_t *groups, int count)
{
	/* Slurm leaves the first descriptors closed: job may be one of them */
	if (fchdir (job) < 0)
		_exit (STAGE_LEFT);
	int null = open ("/dev/null", O_RDWR);
	setsid ();
	umask (077);
	for (int number = 1; number < NSIG; number++)
		signal (number, SIG_DFL);
	if (null < 0 || dup2 (null, 0) < 0 || dup2 (null, 1) < 0 || dup2 (null, 2) < 0
	    || become (data->st_uid, data->st_gid, groups, count) < 0)
		_exit (STAGE_LEFT);
	_exit (finish (settings, path));
}

enum stage_result
stage_finish (int job, const char *path, uid_t uid, const struct settings *settings)
{
	struct stat data;
	gid_t groups[MOST_GROUPS];
	int count = MOST_GROUPS, status = -1;

	/* its parent is root's: no user can have put it there */
	if (fstatat (job, "data", &data, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR (data.st_mode)
	    || data.st_uid != uid)
		return STAGE_LEFT;
	const struct passwd *user = getpwuid (uid);
	if (!user || getgrouplist (user->pw_name, data.st_gid, groups, &count) < 0) {
		groups[0] = data.st_gid;
		count = 1;
	}
	pid_t pid = fork ();
	if (pid == 0)
		work (job, path, settings, &data, groups, count);
	if (pid < 0
	    || !await (pid, now_s () + settings->stage_bound_s + REMOVAL_S + GRACE_S,
		       SIGKILL, &status)
	    || !WIFEXITED (status) || WEXITSTATUS (status) > STAGE_LEFT)
		return STAGE_LEFT;
	if (WEXITSTATUS (status) != STAGE_DRAINED)
		return (enum stage_result)WEXITSTATUS (status);
	/* data may hold what a drainer never saw: then it stays */
	if (unlinkat (job, "data", AT_REMOVEDIR) < 0)
		return STAGE_LEFT;
	unlinkat (job, "state", AT_REMOVEDIR);
	rmdir (path);
	return STAGE_DRAINED;
}
