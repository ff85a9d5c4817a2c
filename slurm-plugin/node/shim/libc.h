/*
 * What this library itself calls: functions of the C library, found there and nowhere
 * else, and system calls. A program, or a library of it, may have a function or a variable
 * of any name, which a plain call from here would reach.
 */
#ifndef SLUICE_LIBC_H
#define SLUICE_LIBC_H

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* clang-format off */
#define LIBC_FUNCTIONS(X)                                                             \
	X (__errno_location) X (__fbufsize) X (__flbf) X (__fpending) X (clock_gettime)     \
	X (dl_iterate_phdr) X (fileno) X (getauxval) X (getenv) X (ppoll)             \
	X (pthread_key_create) X (pthread_setspecific) X (strlen) X (syscall)
/* clang-format on */

#define LIBC_ENUM(name) LIBC_##name,
enum libc { LIBC_FUNCTIONS (LIBC_ENUM) LIBC_COUNT };

extern void *libc_found[LIBC_COUNT];
void *libc_find (enum libc which);

static inline void *
libc_function (enum libc which)
{
	void *found = __atomic_load_n (&libc_found[which], __ATOMIC_RELAXED);
	return __builtin_expect (found != 0, 1) ? found : libc_find (which);
}

#define LIBC(name) ((__typeof__ (&name))libc_function (LIBC_##name))

/* Those without which nothing is counted. */
int libc_is_complete (void);

/* Of this thread: errno itself is looked up by name. */
#define ERRNO (*LIBC (__errno_location) ())

/* The program's, which it may have set to another stream. */
FILE *libc_stdout (void);

/* ---- system calls: what they return, or -errno; errno itself stays ---- */

#ifdef __x86_64__
static inline long
system_call_of (long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#else
long system_call_of (long number, long a, long b, long c, long d, long e, long f);
#endif

#define SYSTEM_CALL_6(number, a, b, c, d, e, f, ...)                                       \
	system_call_of (SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d),          \
			(long)(e), (long)(f))
/* SYSTEM_CALL (fstat, fd, &status) */
#define SYSTEM_CALL(...) SYSTEM_CALL_6 (__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

static inline int
system_is_mapped (const void *mapped)
{
	return (unsigned long)mapped < -4095ul;
}

#endif
