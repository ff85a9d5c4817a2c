/*
 * kinds KIND FILE: writes in one way, for the tests of libsluice_turns.so, and prints what
 * each call returned. Of every kind it is known what reaches the file.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KIB = 1024, THREADS = 4, TIMES = 100 };

static const char *path;
static char block[64 * KIB];

static long
told (const char *what, long result)
{
	printf ("%s %ld %s\n", what, result, result < 0 ? strerror (errno) : "");
	fflush (stdout);
	return result;
}

static int
opened (int flags)
{
	int fd = open (path, O_CREAT | O_RDWR | flags, 0644);
	if (fd < 0) {
		perror (path);
		exit (3);
	}
	return fd;
}

/* ---- system calls ---- */

static void
do_write (void)
{
	int fd = opened (O_TRUNC);
	for (int i = 0; i < TIMES; i++)
		if (write (fd, block, KIB) != KIB)
			exit (4);
	told ("close", close (fd));
}

static void
do_pwrite (void)
{
	int fd = opened (O_TRUNC);
	told ("pwrite", pwrite (fd, block, KIB, 0));
	told ("pwrite64", pwrite64 (fd, block, KIB, KIB));
	close (fd);
}

static void
do_vector (void)
{
	int fd = opened (O_TRUNC);
	struct iovec two[2] = { { block, KIB }, { block, KIB } };
	told ("writev", writev (fd, two, 2));
	told ("pwritev", pwritev (fd, two, 2, 2 * KIB));
	told ("pwritev64", pwritev64 (fd, two, 2, 4 * KIB));
	told ("pwritev2", pwritev2 (fd, two, 2, 6 * KIB, 0));
	told ("pwritev64v2", pwritev64v2 (fd, two, 2, 8 * KIB, RWF_DSYNC));
	close (fd);
}

static void
do_copy (void)
{
	int from = open ("/proc/self/exe", O_RDONLY), fd = opened (O_TRUNC), pipes[2];
	off_t offset = 0;

	told ("sendfile", sendfile (fd, from, &offset, KIB));
	if (pipe (pipes) < 0 || write (pipes[1], block, KIB) != KIB)
		exit (4);
	told ("splice", splice (pipes[0], NULL, fd, NULL, KIB, 0));
	lseek (fd, 0, SEEK_SET);
	off64_t begin = 0, end = 2 * KIB;
	told ("copy_file_range", copy_file_range (fd, &begin, fd, &end, KIB, 0));
	close (fd);
}

static void
do_errors (void)
{
	int fd = opened (O_TRUNC), reading = open (path, O_RDONLY);
	void *volatile nowhere = NULL; /* so that the compiler does not warn */
	volatile int negative = -1;
	told ("write to no file", write (-1, block, KIB));
	told ("write to a large number", write (1000000, block, KIB));
	told ("write of nowhere", write (fd, nowhere, KIB));
	told ("writev of nowhere", writev (fd, nowhere, 2));
	told ("writev of a negative number", writev (fd, nowhere, negative));
	told ("write for reading", write (reading, block, KIB));
	told ("pwrite before the file", pwrite (fd, block, KIB, -1));
	told ("close", close (fd));
	told ("close again", close (fd));
	told ("fsync of no file", fsync (fd));
	told ("dup2", dup2 (-1, 77));
	told ("fcntl", fcntl (-1, F_GETFD));
	told ("flock", flock (-1, LOCK_EX));
}

static void
do_direct (void)
{
	int fd = opened (O_TRUNC | O_DIRECT);
	void *aligned = NULL;
	if (posix_memalign (&aligned, 4 * KIB, 4 * KIB) != 0)
		exit (4);
	memset (aligned, 'd', 4 * KIB);
	told ("direct", write (fd, aligned, 4 * KIB));
	told ("F_SETFL", fcntl (fd, F_SETFL, 0));
	told ("rest", write (fd, block, 100));
	close (fd);
	free (aligned);
}

static void
do_sync (void)
{
	int fd = opened (O_TRUNC);
	told ("write", write (fd, block, 8 * KIB));
	told ("fsync", fsync (fd));
	told ("write", write (fd, block, 4 * KIB));
	told ("fdatasync", fdatasync (fd));
	told ("write", write (fd, block, 2 * KIB));
	close (fd);
}

/* ---- stdio ---- */

static FILE *
stream (const char *mode)
{
	FILE *file = fopen (path, mode);
	if (!file) {
		perror (path);
		exit (3);
	}
	return file;
}

static void
do_fwrite (void)
{
	FILE *file = stream ("w");
	for (int i = 0; i < TIMES; i++)
		if (fwrite (block, KIB, 1, file) != 1)
			exit (4);
	told ("fclose", fclose (file));
}

static void
do_fwrite_large (void)
{
	FILE *file = stream ("w");
	told ("fwrite", (long)fwrite (block, 1, 10, file));
	told ("fwrite", (long)fwrite (block, 1, sizeof block, file));
	told ("fwrite_unlocked", (long)fwrite_unlocked (block, 1, sizeof block, file));
	told ("fflush", fflush (file));
	told ("fclose", fclose (file));
}

/* 10 bytes each, without a close: libc empties the buffer at exit. */
static void
do_text (void)
{
	FILE *file = stream ("w");
	for (int i = 0; i < TIMES; i++) {
		fprintf (file, "%09d\n", i);
		fputs ("123456789\n", file);
		for (int j = 0; j < 10; j++)
			fputc ('c', file);
		for (int j = 0; j < 10; j++)
			putc ('c', file);
	}
}

static void
do_unlocked (void)
{
	FILE *file = stream ("w");
	for (int i = 0; i < 4096 * 3; i++)
		putc_unlocked ('c', file);
	told ("fclose", fclose (file));
}

/* As bash 5.3 does. */
static void
do_lines (void)
{
	FILE *file = stream ("w");
	setvbuf (file, NULL, _IOLBF, BUFSIZ);
	for (int i = 100; i < 200; i++) {
		fprintf (file, "%d", i);
		putc_unlocked ('\n', file);
	}
	told ("fclose", fclose (file));
}

static void
do_unbuffered (void)
{
	FILE *file = stream ("w");
	setvbuf (file, NULL, _IONBF, 0);
	for (int i = 0; i < TIMES; i++)
		fprintf (file, "%09d\n", i);
	fclose (file);
}

static void
do_stdout (void)
{
	if (!freopen (path, "w", stdout))
		exit (4);
	puts ("123456789");
	printf ("%09d\n", 7);
	putchar ('c');
	fflush (stdout);
	dprintf (STDOUT_FILENO, "%09d\n", 8);
}

static void
do_seek (void)
{
	FILE *file = stream ("w+");
	fwrite (block, KIB, 1, file);
	rewind (file);
	fwrite ("x", 1, 1, file);
	fseek (file, 0, SEEK_END);
	fprintf (file, "end");
	fclose (file);
}

/* ---- processes and threads ---- */

static int shared_fd;

static void *
write_many (void *unused)
{
	for (int i = 0; i < TIMES; i++)
		if (write (shared_fd, block, KIB) != KIB)
			exit (4);
	return unused;
}

static void
do_threads (void)
{
	pthread_t threads[THREADS];
	shared_fd = opened (O_TRUNC | O_APPEND);
	for (int i = 0; i < THREADS; i++)
		pthread_create (&threads[i], NULL, write_many, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join (threads[i], NULL);
	close (shared_fd);
}

static void *
print_many (void *file)
{
	for (int i = 0; i < TIMES; i++) {
		fprintf (file, "%09d\n", i);
		fwrite (block, 1, KIB, file);
	}
	return file;
}

static void
do_shared_stream (void)
{
	pthread_t threads[THREADS];
	FILE *file = stream ("w");
	for (int i = 0; i < THREADS; i++)
		pthread_create (&threads[i], NULL, print_many, file);
	for (int i = 0; i < THREADS; i++)
		pthread_join (threads[i], NULL);
	fclose (file);
}

static void
do_fork (void)
{
	shared_fd = opened (O_TRUNC | O_APPEND);
	for (int i = 0; i < THREADS; i++)
		if (fork () == 0) {
			write_many (NULL);
			if (i % 2)
				_exit (0);
			exit (0);
		}
	write_many (NULL);
	while (wait (NULL) > 0)
		;
}

/* A child of each; it writes once in its life. */
static void
do_forks (void)
{
	int fd = opened (O_TRUNC | O_APPEND);
	for (int i = 0; i < 500; i++) {
		pid_t child = fork ();
		if (child == 0)
			_exit (write (fd, block, 10) != 10);
		waitpid (child, NULL, 0);
	}
}

static void
do_vfork (void)
{
	int fd = opened (O_TRUNC | O_APPEND), status;
	told ("write", write (fd, block, KIB));
	pid_t child = vfork ();
	if (child == 0) {
		close (fd);
		_exit (write (fd, block, KIB) == KIB);
	}
	waitpid (child, &status, 0);
	told ("child", WEXITSTATUS (status));
	told ("write", write (fd, block, KIB));
}

static void
do_exec (void)
{
	int fd = opened (O_TRUNC);
	told ("write", write (fd, block, KIB));
	char *words[] = { "kinds", "write", (char *)path, NULL };
	execv ("/proc/self/exe", words);
}

static void
do_daemon (void)
{
	int ready[2];
	char byte;

	if (pipe (ready) < 0)
		exit (4);
	if (fork () == 0) {
		setsid ();
		if (fork () == 0) {
			for (int fd = 0; fd < 1024; fd++)
				if (fd != ready[1])
					close (fd);
			do_fwrite ();
			_exit (0);
		}
		_exit (0);
	}
	close (ready[1]);
	while (read (ready[0], &byte, 1) > 0)
		;
	while (wait (NULL) > 0)
		;
}

static void
do_closeall (void)
{
	int fd = opened (O_TRUNC);
	told ("write", write (fd, block, KIB));
	told ("close_range", close_range (3, ~0u, 0));
	told ("write", write (fd, block, KIB));
	fd = opened (O_APPEND);
	told ("write", write (fd, block, KIB));
	closefrom (3);
}

static void
close_each (void)
{
	for (int fd = 3; fd < 1024; fd++)
		close (fd);
}

static void
close_in_one (void)
{
	close_range (3, ~0u, 0);
}

static void
close_from (void)
{
	closefrom (3);
}

/* As what starts programs does: all descriptors are closed before. */
static void
do_launcher (void)
{
	static void (*const ways[]) (void) = { close_each, close_in_one, close_from };
	char *words[] = { "kinds", "write", (char *)path, NULL };

	for (int i = 0; i < 3; i++) {
		int status = -1;
		pid_t child = fork ();
		if (child == 0) {
			ways[i]();
			execv ("/proc/self/exe", words);
			_exit (5);
		}
		waitpid (child, &status, 0);
		told ("launched", status);
	}
}

/* A descriptor that was the file is a pipe, which the C library does not tell anybody. */
static void
do_reused (void)
{
	int fd = opened (O_TRUNC), pipes[2];
	told ("write", write (fd, block, KIB));
	if (pipe (pipes) < 0)
		exit (4);
	told ("dup", syscall (SYS_dup3, pipes[1], fd, 0));
	for (int i = 0; i < 10; i++)
		told ("write", write (fd, block, 10));
}

/* ---- signals ---- */

static volatile sig_atomic_t signals;
static sigjmp_buf back;

static void
note_signal (int number)
{
	(void)number;
	signals++;
}

static void
write_in_handler (int number)
{
	(void)number;
	if (write (shared_fd, "signal\n", 7) != 7)
		_exit (4);
	signals++;
}

static void
jump (int number)
{
	(void)number;
	siglongjmp (back, 1);
}

static void
on_signal (int number, void (*handler) (int))
{
	struct sigaction action = { .sa_handler = handler };
	sigaction (number, &action, NULL);
}

static void
alarm_each (long microseconds)
{
	struct itimerval timer = { { 0, microseconds }, { 0, microseconds } };
	setitimer (ITIMER_REAL, &timer, NULL);
}

/* Handlers without SA_RESTART run all the time. */
static void
do_alarms (void)
{
	on_signal (SIGALRM, note_signal);
	alarm_each (5000);
	do_write ();
	alarm_each (0);
}

/* From another process: one that has set an alarm is not held. */
static void
signal_after (useconds_t microseconds)
{
	fflush (stdout);
	if (fork () != 0)
		return;
	usleep (microseconds);
	kill (getppid (), SIGALRM);
	_exit (0);
}

/* ---- programs that watch themselves ---- */

/* By the default of SIGALRM it ends if the writes take longer; then it writes once more. */
static void
write_watched (void)
{
	int fd = opened (O_TRUNC);
	for (int i = 0; i < 10; i++)
		if (write (fd, block, KIB) != KIB)
			exit (4);
	close (fd);
}

static void
do_alarm (void)
{
	alarm (1);
	write_watched ();
	told ("seconds left", alarm (0));
}

static void
ends (union sigval value)
{
	(void)value;
	_exit (9);
}

static void
watch_by_timer (int notify, int flags)
{
	struct sigevent event = { .sigev_notify = notify, .sigev_signo = SIGALRM };
	struct itimerspec second = { .it_value.tv_sec = 1 },
			  none = { .it_value.tv_sec = 0 };
	struct timespec now;
	timer_t timer;

	if (notify == SIGEV_THREAD)
		event.sigev_notify_function = ends;
	clock_gettime (CLOCK_REALTIME, &now);
	if (flags)
		second.it_value = (struct timespec){ now.tv_sec + 1, now.tv_nsec };
	told ("create", timer_create (CLOCK_REALTIME, &event, &timer));
	told ("set", timer_settime (timer, flags, &second, NULL));
	write_watched ();
	told ("set", timer_settime (timer, 0, &none, NULL));
	told ("delete", timer_delete (timer));
}

static void
do_timer (void)
{
	watch_by_timer (SIGEV_SIGNAL, 0);
}

static void
do_timer_at (void)
{
	watch_by_timer (SIGEV_SIGNAL, TIMER_ABSTIME);
}

static void
do_timer_thread (void)
{
	watch_by_timer (SIGEV_THREAD, 0);
}

static void *
watch_later (void *unused)
{
	usleep (300000);
	alarm (1);
	return unused;
}

/* Another thread sets the alarm while the first write is held. */
static void
do_watched_later (void)
{
	pthread_t thread;
	pthread_create (&thread, NULL, watch_later, NULL);
	write_watched ();
	alarm (0);
	pthread_join (thread, NULL);
	alarm (0);
}

/* Its child has neither alarms nor timers. */
static void
do_unwatched_child (void)
{
	alarm (100);
	told ("wait", 0);
	if (fork () == 0) {
		write_watched ();
		_exit (0);
	}
	wait (NULL);
}

static void
do_handler (void)
{
	shared_fd = opened (O_TRUNC | O_APPEND);
	on_signal (SIGALRM, write_in_handler);
	signal_after (1000000);
	while (!signals)
		write_many (NULL);
	told ("signals", signals);
	if (truncate (path, 0) < 0)
		exit (4);
}

static void
write_and_tell (int number)
{
	write_in_handler (number);
	if (write (STDOUT_FILENO, "handled\n", 8) != 8)
		_exit (4);
}

/* A handler writes while the program does nothing else than its first write. */
static void
do_interrupted (void)
{
	shared_fd = opened (O_TRUNC | O_APPEND);
	on_signal (SIGALRM, write_and_tell);
	signal_after (1000000);
	told ("write", write (shared_fd, block, KIB));
}

static void
do_jump (void)
{
	int fd = opened (O_TRUNC);
	on_signal (SIGALRM, jump);
	if (sigsetjmp (back, 1) == 0) {
		signal_after (100000);
		for (;;)
			if (pwrite (fd, block, KIB, 0) < 0)
				exit (4);
	}
	told ("write", write (fd, block, KIB));
}

/* Asks to be told of SIGTERM, writes what it has then, and ends. */
static void
do_term (void)
{
	int fd = opened (O_TRUNC);
	on_signal (SIGTERM, note_signal);
	told ("ready", 0);
	while (!signals)
		if (pwrite (fd, block, KIB, 0) != KIB)
			exit (4);
	told ("write", pwrite (fd, block, 2 * KIB, 0));
}

static void *
write_for_ever (void *unused)
{
	for (;;)
		if (pwrite (shared_fd, block, KIB, 0) != KIB)
			exit (4);
	return unused;
}

static void
do_cancel (void)
{
	pthread_t thread;
	void *result;

	shared_fd = opened (O_TRUNC);
	for (int i = 0; i < 20; i++) {
		pthread_create (&thread, NULL, write_for_ever, NULL);
		usleep (5000);
		pthread_cancel (thread);
		pthread_join (thread, &result);
		told ("cancelled", result == PTHREAD_CANCELED);
	}
}

/* ---- restricted ---- */

static void
do_strict (void)
{
	int fd = opened (O_TRUNC);
	if (prctl (PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
		exit (4);
	for (int i = 0; i < TIMES; i++)
		if (write (fd, block, KIB) != KIB)
			syscall (SYS_exit, 4);
	syscall (SYS_exit, 0);
}

/* Allows write and exit_group, as the manual's examples do, and kills for all else. */
static void
do_filter (void)
{
#define ALLOW(number)                                                                      \
	BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                \
	    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	struct sock_filter rules[] = {
		BPF_STMT (BPF_LD | BPF_W | BPF_ABS, 0),
		ALLOW (SYS_write),
		ALLOW (SYS_exit_group),
		ALLOW (SYS_close),
		BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof rules / sizeof rules[0], rules };
	int fd = opened (O_TRUNC);

	if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
	    || prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		exit (4);
	for (int i = 0; i < TIMES; i++)
		if (write (fd, block, KIB) != KIB)
			_exit (4);
	close (fd);
	_exit (0);
}

/* A program started under a filter that kills for what programs that write do not need. */
static void
do_sandbox (void)
{
#define KILL(number)                                                                       \
	BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                \
	    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
	struct sock_filter rules[] = {
		BPF_STMT (BPF_LD | BPF_W | BPF_ABS, 0),
		KILL (SYS_fcntl),
		KILL (SYS_getpid),
		KILL (SYS_geteuid),
		KILL (SYS_madvise),
		KILL (SYS_ppoll),
		KILL (SYS_rt_sigprocmask),
		BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof rules / sizeof rules[0], rules };
	char *words[] = { "kinds", "write", (char *)path, NULL };

	if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
	    || prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		exit (4);
	execv ("/proc/self/exe", words);
}

/* ---- locks ---- */

static void
write_under_lock (int fd)
{
	told ("write", pwrite (fd, block, KIB, 0));
}

static void
do_flock (void)
{
	int fd = opened (O_TRUNC);
	told ("flock", flock (fd, LOCK_EX));
	write_under_lock (fd);
	told ("flock", flock (fd, LOCK_UN));
}

static void
do_fcntl (void)
{
	int fd = opened (O_TRUNC);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };
	told ("F_SETLK", fcntl (fd, F_SETLK, &lock));
	write_under_lock (fd);
	lock.l_type = F_UNLCK;
	told ("F_SETLK", fcntl (fd, F_SETLK, &lock));
}

static void
do_ofd (void)
{
	int fd = opened (O_TRUNC), copy;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	told ("F_OFD_SETLKW", fcntl (fd, F_OFD_SETLKW, &lock));
	copy = dup (fd);
	close (fd);
	write_under_lock (copy);
	close (copy);
}

static void
do_lockf (void)
{
	int fd = opened (O_TRUNC);
	lseek (fd, 100, SEEK_SET);
	told ("lockf", lockf (fd, F_TLOCK, 10));
	write_under_lock (fd);
	told ("lockf", lockf (fd, F_ULOCK, 10));
}

/* As a shell does that runs `flock 9` and goes on: the lock is a dead child's. */
static void
do_inherited (void)
{
	int fd = opened (O_TRUNC);
	if (fork () == 0)
		exit (flock (fd, LOCK_EX) < 0);
	wait (NULL);
	write_under_lock (fd);
}

/* ---- not seen ---- */

static void
do_mapped (void)
{
	int fd = opened (O_TRUNC);
	if (ftruncate (fd, 64 * KIB) < 0)
		exit (4);
	char *mapped = mmap (NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset (mapped, 'm', 64 * KIB);
	told ("munmap", munmap (mapped, 64 * KIB));
}

static void
do_aio (void)
{
	struct aiocb request = {
		.aio_fildes = opened (O_TRUNC),
		.aio_buf = block,
		.aio_nbytes = KIB,
	};
	const struct aiocb *list[] = { &request };
	told ("aio_write", aio_write (&request));
	while (aio_error (&request) == EINPROGRESS)
		aio_suspend (list, 1, NULL);
	told ("aio_return", aio_return (&request));
}

static void
do_descriptors (void)
{
	for (int i = 0; i < 3; i++)
		told ("open", opened (0));
	told ("stack", 0);
}

#define KIND(name)                                                                         \
	{                                                                                  \
#name, do_##name                                                           \
	}
static const struct {
	const char *name;
	void (*run) (void);
} kinds[] = {
	KIND (write),	      KIND (pwrite),	    KIND (vector),
	KIND (copy),	      KIND (errors),	    KIND (direct),
	KIND (sync),	      KIND (fwrite),	    KIND (text),
	KIND (fwrite_large),  KIND (unlocked),	    KIND (lines),
	KIND (unbuffered),    KIND (stdout),	    KIND (seek),
	KIND (threads),	      KIND (fork),	    KIND (forks),
	KIND (vfork),	      KIND (exec),	    KIND (daemon),
	KIND (closeall),      KIND (reused),	    KIND (alarms),
	KIND (handler),	      KIND (jump),	    KIND (term),
	KIND (cancel),	      KIND (strict),	    KIND (filter),
	KIND (flock),	      KIND (fcntl),	    KIND (ofd),
	KIND (lockf),	      KIND (inherited),	    KIND (mapped),
	KIND (aio),	      KIND (descriptors),   KIND (interrupted),
	KIND (shared_stream), KIND (sandbox),	    KIND (launcher),
	KIND (alarm),	      KIND (timer),	    KIND (timer_at),
	KIND (timer_thread),  KIND (watched_later), KIND (unwatched_child),
};

int
main (int count, char **words)
{
	memset (block, 'b', sizeof block);
	path = count == 3 ? words[2] : "";
	for (size_t i = 0; count == 3 && i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp (kinds[i].name, words[1]) == 0) {
			kinds[i].run ();
			return 0;
		}
	fprintf (stderr, "usage: kinds KIND FILE\n");
	return 2;
}
