#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* X(NAME, what went wrong) */
#define STAGES(X)                                                                          \
	X (DONE, "nothing")                                                                \
	X (PREPARE, "cannot prepare a process")                                            \
	X (IDENTITY, "cannot become the user")                                             \
	X (FILE_SYSTEM, "cannot look at the lane's path")                                  \
	X (PARENT, "cannot open the parent directory")                                     \
	X (ELSEWHERE, "the directory would not be on the lane's file system")              \
	X (MAKE, "cannot make the directory")                                              \
	X (CHANGED, "the directory is not the one that was made")                          \
	X (COMMAND, "the placement command failed")                                        \
	X (TIMEOUT, "it took too long")

#define STAGE_ENUM(name, text) STAGE_##name,
#define STAGE_TEXT(name, text) text,

enum stage { STAGES (STAGE_ENUM) };
static const char *const stage_texts[] = { STAGES (STAGE_TEXT) };

/* What the child reports: one write to a pipe, never torn. */
struct outcome {
	unsigned char stage;
	unsigned char error; /* errno, 0: it says nothing */
};

enum { REPORT_FD = 3 };

/*
 * The child. Its parent has threads, so between fork and exec it calls nothing
 * that allocates or locks.
 */

static struct outcome
failed (enum stage stage, int error)
{
	struct outcome outcome = { (unsigned char)stage, (unsigned char)error };
	return outcome;
}

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

/* Nothing of the host process: its signal handlers, its process group, its
 * files. Above all its output, which may be the job's. */
static int
detach (int report)
{
	sigset_t none;
	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		signal (signal_number, SIG_DFL);
	sigemptyset (&none);
	sigprocmask (SIG_SETMASK, &none, NULL);
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

/* Slurm has set effective ids and groups; real and saved ids, which could bring
 * root back, go for good. */
static int
become_user (uid_t uid)
{
	uid_t real, effective, saved;
	gid_t gid = getegid ();
	if (geteuid () != uid || setresgid (gid, gid, gid) < 0
	    || setresuid (uid, uid, uid) < 0)
		return -1;
	return getresuid (&real, &effective, &saved) < 0 || real != uid || effective != uid
		       || saved != uid
		   ? -1
		   : 0;
}

/* Run words in the open directory. 0: it exited with 0. */
static int
run_in (int directory, const char *const *words)
{
	static char *const environment[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };
	int status;
	pid_t pid = fork ();

	if (pid < 0)
		return -1;
	if (pid == 0) {
		if (fchdir (directory) == 0)
			execve (words[0], (char *const *)words, environment);
		_exit (127);
	}
	while (waitpid (pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED (status) && WEXITSTATUS (status) == 0 ? 0 : -1;
}

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

/* Made by an earlier srun of the same allocation: nobody else can write in it. */
static struct outcome
reuse (int parent, const struct directory_request *request)
{
	struct stat found;
	int fd = open_directory (parent, request->name, &found);
	if (fd < 0)
		return failed (STAGE_MAKE, EEXIST);
	close (fd);
	if (found.st_uid != request->uid || found.st_mode & 022)
		return failed (STAGE_MAKE, EEXIST);
	return failed (STAGE_DONE, 0);
}

static struct outcome
make_in (int parent, const struct directory_request *request)
{
	struct stat made;

	if (mkdirat (parent, request->name, 0700) < 0) {
		if (errno == EEXIST && request->may_exist)
			return reuse (parent, request);
		return failed (STAGE_MAKE, errno);
	}
	/* Where others may write in the parent, they may have put something else
	 * in its place; they own no directory of the user's. */
	int fd = open_directory (parent, request->name, &made);
	if (fd < 0 || made.st_uid != request->uid || (made.st_mode & 0777) != 0700)
		return failed (STAGE_CHANGED, 0);
	if (request->words[0] && run_in (fd, request->words) < 0) {
		unlinkat (parent, request->name, AT_REMOVEDIR);
		return failed (STAGE_COMMAND, 0);
	}
	return failed (STAGE_DONE, 0);
}

static struct outcome
work (const struct directory_request *request, int report)
{
	struct stat lane, parent;

	if (detach (report) < 0)
		return failed (STAGE_PREPARE, errno);
	if (become_user (request->uid) < 0)
		return failed (STAGE_IDENTITY, errno);
	if (stat (request->file_system, &lane) < 0)
		return failed (STAGE_FILE_SYSTEM, errno);
	int fd = open (request->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat (fd, &parent) < 0)
		return failed (STAGE_PARENT, errno);
	if (parent.st_dev != lane.st_dev)
		return failed (STAGE_ELSEWHERE, 0);
	return make_in (fd, request);
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
			return failed (STAGE_TIMEOUT, 0);
		if (ready > 0)
			break;
		if (errno != EINTR)
			return failed (STAGE_PREPARE, errno);
	}
	if (read (report, &outcome, sizeof outcome) != sizeof outcome)
		return failed (STAGE_PREPARE, 0); /* the child was killed */
	return outcome;
}

/* Also what the placement command started. A process that hangs in a system call
 * stays until that returns; we do not wait for it. */
static void
end_child (pid_t pid)
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };
	kill (-pid, SIGKILL);
	kill (pid, SIGKILL);
	for (int i = 0; i < 200 && waitpid (pid, NULL, WNOHANG) == 0; i++)
		nanosleep (&millisecond, NULL);
}

int
directory_make (const struct directory_request *request, char *why, size_t size)
{
	struct outcome outcome;
	int report[2];

	if (pipe2 (report, O_CLOEXEC) < 0) {
		snprintf (why, size, "%s", strerror (errno));
		return -1;
	}
	pid_t pid = fork ();
	if (pid == 0) {
		outcome = work (request, report[1]);
		ssize_t written = write (REPORT_FD, &outcome, sizeof outcome);
		_exit (written == sizeof outcome ? 0 : 1);
	}
	close (report[1]);
	outcome = pid < 0 ? failed (STAGE_PREPARE, errno)
			  : await (report[0], request->timeout_s);
	close (report[0]);
	if (pid > 0)
		end_child (pid);
	if (outcome.stage == STAGE_DONE)
		return 0;
	snprintf (why, size, "%s%s%s",
		  outcome.stage <= STAGE_TIMEOUT ? stage_texts[outcome.stage] : "?",
		  outcome.error ? ": " : "", outcome.error ? strerror (outcome.error) : "");
	return -1;
}
