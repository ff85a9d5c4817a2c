/* The system calls that write, as the C library offers them. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "next.h"
#include "turn.h"

#define WRAP(type, name, parameters, arguments, fd)                                        \
	EXPORT type name parameters                                                        \
	{                                                                                  \
		struct turn turn;                                                          \
		type done;                                                                 \
                                                                                           \
		if (!turn_begin (&turn, fd))                                               \
			return NEXT (name) arguments;                                      \
		done = NEXT (name) arguments;                                              \
		turn_end (&turn, done, 1);                                                 \
		return done;                                                               \
	}

WRAP (ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd)
WRAP (ssize_t, pwrite, (int fd, const void *data, size_t size, off_t offset),
      (fd, data, size, offset), fd)
WRAP (ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t offset),
      (fd, data, size, offset), fd)
WRAP (ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count),
      fd)
WRAP (ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t offset),
      (fd, parts, count, offset), fd)
WRAP (ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t offset),
      (fd, parts, count, offset), fd)
WRAP (ssize_t, sendfile, (int to, int from, off_t *offset, size_t size),
      (to, from, offset, size), to)
WRAP (ssize_t, sendfile64, (int to, int from, off64_t *offset, size_t size),
      (to, from, offset, size), to)
WRAP (ssize_t, copy_file_range,
      (int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size,
       unsigned int flags),
      (from, from_offset, to, to_offset, size, flags), to)
WRAP (ssize_t, splice,
      (int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size,
       unsigned int flags),
      (from, from_offset, to, to_offset, size, flags), to)

/* Each write may say that it is to be durable. */
#define WRAP_FLAGS(name, offset_type)                                                      \
	EXPORT ssize_t name (int fd, const struct iovec *parts, int count,                 \
			     offset_type offset, int flags)                                \
	{                                                                                  \
		struct turn turn;                                                          \
		ssize_t done;                                                              \
                                                                                           \
		if (!turn_begin (&turn, fd))                                               \
			return NEXT (name) (fd, parts, count, offset, flags);              \
		turn.is_durable |= (flags & (RWF_SYNC | RWF_DSYNC)) != 0;                  \
		done = NEXT (name) (fd, parts, count, offset, flags);                      \
		turn_end (&turn, done, 1);                                                 \
		return done;                                                               \
	}

WRAP_FLAGS (pwritev2, off_t)
WRAP_FLAGS (pwritev64v2, off64_t)

/* ---- dprintf, which writes to a descriptor ---- */

WRAP (int, vdprintf, (int fd, const char *format, va_list values), (fd, format, values), fd)
extern int __vdprintf_chk (int fd, int flag, const char *format, va_list values);
extern int __dprintf_chk (int fd, int flag, const char *format, ...);
WRAP (int, __vdprintf_chk, (int fd, int flag, const char *format, va_list values),
      (fd, flag, format, values), fd)

/* Counted like what takes the values as a list, which has to come from the same library. */
#define WRAP_FORMAT(name, parameters, of_values, arguments)                                \
	EXPORT int name parameters                                                         \
	{                                                                                  \
		__typeof__ (&of_values) next = NEXT_ALONGSIDE (name, of_values);           \
		struct turn turn;                                                          \
		va_list values;                                                            \
		int done, counts;                                                          \
                                                                                           \
		if (!next)                                                                 \
			PASS_ON (name);                                                    \
		counts = turn_begin (&turn, fd);                                           \
		va_start (values, format);                                                 \
		done = next arguments;                                                     \
		va_end (values);                                                           \
		if (counts)                                                                \
			turn_end (&turn, done, 1);                                         \
		return done;                                                               \
	}

WRAP_FORMAT (dprintf, (int fd, const char *format, ...), vdprintf, (fd, format, values))
WRAP_FORMAT (__dprintf_chk, (int fd, int flag, const char *format, ...), __vdprintf_chk,
	     (fd, flag, format, values))
