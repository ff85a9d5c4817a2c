#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "settings.h"

/* What became of it. */
struct outcome {
	unsigned char stage; /* 0: done; the work's own numbers are below 200 */
	unsigned char error; /* errno, 0: it says nothing */
	char found[DIRECTORY_NAME_SIZE];
};

enum {
	AS_USER_PREPARE = 200, /* cannot prepare a process */
	AS_USER_IDENTITY,      /* cannot become the user */
	AS_USER_TIMEOUT,       /* it took too long */
};

/*
 * Runs between fork and _exit in a program that has threads: calls nothing that
 * allocates or locks.
 */
typedef struct outcome as_user_work (const void *argument);

/*
 * Do a piece of work as the job's user, in a process of its own that is killed
 * when it takes too long: a file system may hang.
 *
 * The process has nothing of its host, srun or a slurmstepd of root's: no other
 * identity, no signal handler, no open file. Above all not its output, which may
 * be the job's.
 */

/* Where the child writes its outcome: in one piece, never torn. */
enum { REPORT_FD = PROCESS_FD };

static struct outcome
outcome_of (int stage, int error)
{
	return (struct outcome){ (unsigned char)stage, (unsigned char)error, "" };
}

/*
 * The child.
 */

static void
close_above (int last)
{
#ifdef SYS_close_range
	if (syscall (SYS_close_range, last + 1, ~0U, 0) == 0)
		return;
#endif
	struct rlimit limit;
	if (getrlimit (RLIMIT_NOFILE, &limit) < 0)
		return;
	for (rlim_t fd = (rlim_t)last + 1; fd < limit.rlim_cur && fd < 1 << 20; fd++)
		close ((int)fd);
}

static void
block_only (const sigset_t *blocked)
{
	sigprocmask (SIG_SETMASK, blocked, NULL);
}

int
process_detach (int report)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal (number, SIG_DFL);
	sigemptyset (&none);
	block_only (&none);
	setsid ();
	umask (077);
	if (report == REPORT_FD) {
		if (fcntl (REPORT_FD, F_SETFD, FD_CLOEXEC) < 0)
			return -1;
	} else if (dup3 (report, REPORT_FD, O_CLOEXEC) < 0) {
		return -1;
	}
	close_above (REPORT_FD);
	int null = open ("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -1;
	for (int fd = 0; fd < REPORT_FD; fd++)
		if (dup2 (null, fd) < 0)
			return -1;
	close (null);
	return 0;
}

/* Slurm has set the effective ids and the groups; real and saved ids, which could
 * bring root back, go for good. */
int
process_become (uid_t uid)
{
	uid_t real, effective, saved;
	gid_t gid = getegid ();

	if (geteuid () != uid || setresgid (gid, gid, gid) < 0
	    || setresuid (uid, uid, uid) < 0 || getresuid (&real, &effective, &saved) < 0)
		return -1;
	return real == uid && effective == uid && saved == uid ? 0 : -1;
}

static void
execute (int directory, const char *const *words)
{
	static char *const environment[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };
	const struct rlimit no_core = { 0, 0 };
	sigset_t none;

	setpgid (0, 0);
	sigemptyset (&none);
	block_only (&none);
	/* a core file would lie in the job's directory */
	setrlimit (RLIMIT_CORE, &no_core);
	if (fchdir (directory) == 0)
		execve (words[0], (char *const *)words, environment);
	_exit (127);
}

/* Run a command in an open directory, without a shell and with an environment of
 * its own. To be called from the work. 0: it exited with 0 within timeout_s. */
static int
as_user_execute (int directory, const char *const *words, uint32_t timeout_s)
{
	const struct timespec timeout = { .tv_sec = timeout_s };
	sigset_t child_ended;
	int status = -1;

	/* blocked before the fork, so that an early end is not missed */
	sigemptyset (&child_ended);
	sigaddset (&child_ended, SIGCHLD);
	block_only (&child_ended);
	pid_t pid = fork ();
	if (pid < 0)
		return -1;
	if (pid == 0)
		execute (directory, words);
	int ended = sigtimedwait (&child_ended, NULL, &timeout) == SIGCHLD;
	if (!ended) {
		kill (-pid, SIGKILL); /* with all it started */
		kill (pid, SIGKILL);
	}
	if (waitpid (pid, &status, 0) != pid)
		return -1;
	return ended && WIFEXITED (status) && WEXITSTATUS (status) == 0 ? 0 : -1;
}

static void
run_child (int report, uid_t uid, as_user_work *work, const void *argument)
{
	struct outcome outcome;

	if (process_detach (report) < 0)
		outcome = outcome_of (AS_USER_PREPARE, errno);
	else if (process_become (uid) < 0)
		outcome = outcome_of (AS_USER_IDENTITY, errno);
	else
		outcome = work (argument);
	_exit (write (REPORT_FD, &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
}

/*
 * The parent.
 */

static int64_t
now_ms (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct outcome
await (int report, uint32_t timeout_s)
{
	struct outcome outcome;
	struct pollfd events = { .fd = report, .events = POLLIN };
	int64_t deadline = now_ms () + (int64_t)timeout_s * 1000;

	for (;;) {
		int64_t left = deadline - now_ms ();
		int ready = poll (&events, 1, left > 0 ? (int)left : 0);
		if (ready == 0)
			return outcome_of (AS_USER_TIMEOUT, 0);
		if (ready > 0)
			break;
		if (errno != EINTR)
			return outcome_of (AS_USER_PREPARE, errno);
	}
	if (read (report, &outcome, sizeof outcome) != sizeof outcome)
		return outcome_of (AS_USER_PREPARE, 0); /* it was killed */
	return outcome;
}

/* A process that hangs in a system call stays until that returns; we do not wait
 * for it. */
static void
end_child (pid_t pid)
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };
	kill (pid, SIGKILL);
	for (int i = 0; i < 200 && waitpid (pid, NULL, WNOHANG) == 0; i++)
		nanosleep (&millisecond, NULL);
}

/* uid must be the effective user already, with the effective group and the
 * supplementary groups of the job, as SPANK's user hooks have them. */
static struct outcome
as_user (uid_t uid, as_user_work *work, const void *argument, uint32_t timeout_s)
{
	int report[2];

	if (pipe2 (report, O_CLOEXEC) < 0)
		return outcome_of (AS_USER_PREPARE, errno);
	pid_t pid = fork ();
	struct outcome outcome = outcome_of (AS_USER_PREPARE, errno);
	if (pid == 0)
		run_child (report[1], uid, work, argument);
	close (report[1]);
	if (pid > 0) {
		outcome = await (report[0], timeout_s);
		end_child (pid);
	}
	close (report[0]);
	return outcome;
}

enum { GRACE_S = 2 }; /* beyond the command's timeout, for the file system */

/* X(NAME, number, what went wrong) */
#define STAGES(X)                                                                          \
	X (DONE, 0, "nothing")                                                             \
	X (FILE_SYSTEM, 1, "cannot look at the lane's path")                               \
	X (PARENT, 2, "cannot open the parent directory")                                  \
	X (ELSEWHERE, 3, "the directory would not be on the lane's file system")           \
	X (UNSAFE, 4, "any user may exchange what lies in the parent directory")           \
	X (MAKE, 5, "cannot make the directory")                                           \
	X (CHANGED, 6, "the directory is not the one that was made")                       \
	X (COMMAND, 7, "the placement command failed")                                     \
	X (PREPARE, AS_USER_PREPARE, "cannot prepare a process")                           \
	X (IDENTITY, AS_USER_IDENTITY, "cannot become the user")                           \
	X (TIMEOUT, AS_USER_TIMEOUT, "it took too long")

#define STAGE_ENUM(name, number, text) STAGE_##name = number,
enum stage { STAGES (STAGE_ENUM) };

static const char *
stage_text (unsigned int stage)
{
#define STAGE_CASE(name, number, text)                                                     \
	case number:                                                                       \
		return text;
	switch (stage) {
		STAGES (STAGE_CASE)
	default:
		return "?";
	}
}

/*
 * The child, as the user.
 */

static int
open_directory (int parent, const char *name, struct stat *out)
{
	int fd = openat (parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat (fd, out) < 0) {
		close (fd);
		return -1;
	}
	return fd;
}

/* Others may have put as many names as they like into the parent. */
enum { MOST_ENTRIES = 100000, MOST_STATED = 64 };

static int
is_own_directory (int parent, const char *name, uid_t uid)
{
	struct stat found;
	return fstatat (parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0
	       && S_ISDIR (found.st_mode) && found.st_uid == uid
	       && (found.st_mode & 0777) == 0700;
}

/* The first by name: all that search agree. readdir would allocate. */
static struct outcome
find_in (int parent, const struct directory_request *request)
{
	_Alignas(struct dirent64) char buffer[32768];
	struct outcome outcome = outcome_of (STAGE_MAKE, ENOENT);
	size_t length = strlen (request->prefix);
	int entries = 0, stated = 0;
	long got;

	while (entries < MOST_ENTRIES && stated < MOST_STATED
	       && (got = syscall (SYS_getdents64, parent, buffer, sizeof buffer)) > 0)
		for (char *at = buffer; at < buffer + got; entries++) {
			const struct dirent64 *entry = (const void *)at;
			const char *name = entry->d_name;
			at += entry->d_reclen;
			if (strncmp (name, request->prefix, length) != 0
			    || strlen (name) >= sizeof outcome.found
			    || stated++ >= MOST_STATED
			    || !is_own_directory (parent, name, request->uid))
				continue;
			if (!outcome.found[0] || strcmp (name, outcome.found) < 0)
				strcpy (outcome.found, name);
		}
	if (outcome.found[0])
		outcome.stage = outcome.error = STAGE_DONE;
	return outcome;
}

/* An earlier srun of the same allocation made it, or another user did. */
static struct outcome
reuse (int parent, const struct directory_request *request)
{
	struct stat found;
	int fd = open_directory (parent, request->name, &found);
	if (fd < 0)
		return outcome_of (STAGE_MAKE, EEXIST);
	close (fd);
	if (found.st_uid != request->uid)
		return outcome_of (STAGE_MAKE, EEXIST);
	return outcome_of (STAGE_DONE, 0);
}

static struct outcome
make_in (int parent, const struct directory_request *request)
{
	struct stat made;

	if (mkdirat (parent, request->name, 0700) < 0) {
		if (errno == EEXIST && request->may_exist)
			return reuse (parent, request);
		return outcome_of (STAGE_MAKE, errno);
	}
	/* Where a group may write in the parent, its members may have put something
	 * else in its place; they own no directory of the user's. */
	int fd = open_directory (parent, request->name, &made);
	if (fd < 0 || made.st_uid != request->uid || (made.st_mode & 0777) != 0700)
		return outcome_of (STAGE_CHANGED, 0);
	if (request->words[0]
	    && as_user_execute (fd, request->words, request->timeout_s) < 0) {
		unlinkat (parent, request->name, AT_REMOVEDIR);
		return outcome_of (STAGE_COMMAND, 0);
	}
	return outcome_of (STAGE_DONE, 0);
}

static struct outcome
work (const void *argument)
{
	const struct directory_request *request = argument;
	struct stat lane, parent;

	if (stat (request->file_system, &lane) < 0)
		return outcome_of (STAGE_FILE_SYSTEM, errno);
	int fd = open (request->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat (fd, &parent) < 0)
		return outcome_of (STAGE_PARENT, errno);
	if (parent.st_dev != lane.st_dev)
		return outcome_of (STAGE_ELSEWHERE, 0);
	if (parent.st_mode & S_IWOTH && !(parent.st_mode & S_ISVTX))
		return outcome_of (STAGE_UNSAFE, 0);
	if (request->prefix) {
		struct outcome found = find_in (fd, request);
		if (found.stage == STAGE_DONE)
			return found;
	}
	return make_in (fd, request);
}

enum { FOLLOWING_MS = 1000 };

/* The child of the child, so that none is left for the host to wait for. It sees at the
 * pipe when the host ends. */
static void
follow (int report, const struct directory_following *following)
{
	const char *words[BACKEND_WORDS];
	struct pollfd end = { .fd = REPORT_FD, .events = POLLIN };
	struct stat found;

	if (process_detach (report) < 0 || process_become (following->uid) < 0)
		return;
	int fd = open_directory (AT_FDCWD, following->path, &found);
	if (fd < 0 || found.st_uid != following->uid)
		return;
	while (poll (&end, 1, FOLLOWING_MS) == 0)
		if (following->next (following->data, words)
		    && as_user_execute (fd, words, following->timeout_s) < 0)
			return;
}

int
directory_follow (const struct directory_following *following)
{
	int ends[2];

	if (pipe2 (ends, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork ();
	if (pid == 0) {
		if (fork () == 0)
			follow (ends[0], following);
		_exit (0);
	}
	close (ends[0]);
	if (pid > 0 && waitpid (pid, NULL, 0) == pid)
		return ends[1];
	close (ends[1]);
	return -1;
}

int
directory_make (const struct directory_request *request, char found[DIRECTORY_NAME_SIZE],
		char *why, size_t size)
{
	struct outcome outcome
	    = as_user (request->uid, work, request, request->timeout_s + GRACE_S);

	memcpy (found, outcome.found, sizeof outcome.found);
	if (outcome.stage == STAGE_DONE)
		return 0;
	snprintf (why, size, "%s%s%s", stage_text (outcome.stage),
		  outcome.error ? ": " : "", outcome.error ? strerror (outcome.error) : "");
	return -1;
}
