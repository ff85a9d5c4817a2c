#include "as_user.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where the child writes its outcome: in one piece, never torn. */
enum { REPORT_FD = 3 };

static struct outcome
outcome_of (int stage, int error)
{
	return (struct outcome){ (unsigned char)stage, (unsigned char)error };
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

static int
detach (int report)
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
static int
become (uid_t uid)
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

int
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

	if (detach (report) < 0)
		outcome = outcome_of (AS_USER_PREPARE, errno);
	else if (become (uid) < 0)
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

struct outcome
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
