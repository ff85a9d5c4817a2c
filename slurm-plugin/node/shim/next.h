/*
 * The functions that ours stand in front of: those of the C library, or of another
 * preloaded library such as Darshan's runtime. NEXT (write) (fd, data, size) calls one.
 */
#ifndef SLUICE_NEXT_H
#define SLUICE_NEXT_H

/* clang-format off */
#define NEXT_OF_LIBC(X)                                                               \
	X (write) X (pwrite) X (pwrite64) X (writev) X (pwritev) X (pwritev64)        \
	X (pwritev2) X (pwritev64v2) X (copy_file_range) X (sendfile) X (sendfile64)  \
	X (splice) X (vdprintf) X (__vdprintf_chk)                                    \
	X (fwrite) X (fwrite_unlocked) X (fputs) X (fputs_unlocked) X (puts)          \
	X (fputc) X (fputc_unlocked) X (putc) X (putc_unlocked) X (_IO_putc)          \
	X (putchar) X (putchar_unlocked) X (putw) X (__overflow)                      \
	X (fprintf) X (vfprintf) X (printf) X (vprintf) X (dprintf) X (__dprintf_chk) \
	X (__fprintf_chk) X (__vfprintf_chk) X (__printf_chk) X (__vprintf_chk)       \
	X (fflush) X (fflush_unlocked)                                                \
	X (fclose) X (freopen) X (freopen64) X (pclose)                               \
	X (fsync) X (fdatasync) X (close) X (close_range) X (closefrom)               \
	X (dup) X (dup2) X (dup3) X (flock) X (lockf) X (lockf64)                     \
	X (fcntl) X (fcntl64) X (mmap) X (mmap64) X (aio_write) X (aio_write64)       \
	X (timer_settime) X (timer_delete) X (prctl) X (_exit) X (_Exit)

/* Of libaio, liburing and libseccomp, in few programs. */
#define NEXT_OF_OTHERS(X)                                                             \
	X (io_submit) X (io_uring_queue_init) X (io_uring_queue_init_params)          \
	X (seccomp_load)
/* clang-format on */

#define NEXT_ENUM(name) NEXT_##name,
enum next {
	NEXT_OF_LIBC (NEXT_ENUM) NEXT_LIBC_COUNT,
	NEXT_OTHERS = NEXT_LIBC_COUNT - 1,
	NEXT_OF_OTHERS (NEXT_ENUM) NEXT_COUNT
};

extern void *next_found[NEXT_LIBC_COUNT];
void *next_find (enum next which);
/* Of libraries that a program may load and unload at any time. */
void *next_of_others (enum next which);
/* The function of the library in which the next `other` is; NULL: it has none. */
void *next_alongside (enum next other, enum next which);

static inline void *
next_function (enum next which)
{
	void *found;

	if (which >= NEXT_LIBC_COUNT)
		return next_of_others (which);
	found = __atomic_load_n (&next_found[which], __ATOMIC_RELAXED);
	return __builtin_expect (found != 0, 1) ? found : next_find (which);
}

#define NEXT(name) ((__typeof__ (&name))next_function (NEXT_##name))
#define NEXT_ALONGSIDE(other, name)                                                        \
	((__typeof__ (&name))next_alongside (NEXT_##other, NEXT_##name))

/* Ends a function of variable arguments, whatever these are, by what the next one returns:
 * a function of the program's own libraries, of which nothing else is known. */
#define PASS_ON(name)                                                                      \
	__builtin_return (__builtin_apply ((void (*) ())next_function (NEXT_##name),       \
					   __builtin_apply_args (), NEXT_MOST_STACK))
enum { NEXT_MOST_STACK = 512 }; /* bytes of arguments beyond registers */

#define EXPORT __attribute__ ((visibility ("default")))

#endif
