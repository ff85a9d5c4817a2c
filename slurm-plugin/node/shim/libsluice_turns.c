/*
 * libsluice_turns.so: preloaded into the tasks of a job, counts what they write and lets
 * them wait for their turn. This file is the table of contents.
 *
 *   page.h               what is shared with the agent, and what its words mean
 *   process.c            maps it, takes and frees the slot of a process
 *   files.c              which descriptors count, what they owe, what is locked
 *   timers.c             alarms and timers that a program has set
 *   turn.c               waits, and counts
 *   next.c               the functions that ours stand in front of
 *   libc.c               the functions and system calls that it uses
 *   loaded.c             finds both, by no name that a program could have as well
 *   wrap_write.c         write, writev, sendfile, copy_file_range, dprintf, ...
 *   wrap_stdio.c         fwrite, fprintf, ..., fflush, fclose
 *   wrap_descriptors.c   fsync, close, dup, flock, fcntl
 *   wrap_others.c        mmap, aio, io_uring, which are not seen; prctl, _exit
 *
 * We fail open: where anything is missing, each function calls the next one and no more.
 * Bytes, results, errno, order and descriptors are those without us. We allocate nothing,
 * print nothing, start nothing, keep no lock, and do nothing once our destructor ran.
 *
 * A process that is held uses ppoll, rt_sigprocmask, getitimer, fstat (of the file that it
 * writes) and clock_gettime, which is no system call on most machines. At its first write
 * it uses getpid, fstat, fcntl (F_GETFL), stat (of its pid namespace) and, where threads
 * begin at once, sched_yield. None of these once it has asked for PR_SET_NO_NEW_PRIVS or
 * PR_SET_SECCOMP. When it begins, it uses fcntl (F_GET_SEALS), fstat, madvise and geteuid;
 * not where PR_SET_SECCOMP came before its exec.
 */
#include "process.h"

__attribute__ ((constructor)) static void
begin (void)
{
	process_attach ();
}

__attribute__ ((destructor)) static void
end (void)
{
	process_end ();
}
