/* What makes data durable, closes and copies descriptors, and locks files. */
#include <limits.h>
#include <stdarg.h>
#include <sys/file.h>

#include "libc.h"
#include "next.h"
#include "turn.h"

/* ---- durable ---- */

/* What it owes is read before the call: what others write meanwhile may stay behind. */
#define WRAP_SYNC(name)                                                                    \
	EXPORT int name (int fd)                                                           \
	{                                                                                  \
		struct turn turn;                                                          \
		uint64_t owed;                                                             \
		int done;                                                                  \
                                                                                           \
		if (!turn_begin_sync (&turn, fd))                                          \
			return NEXT (name) (fd);                                           \
		owed = files_synced (fd);                                                  \
		done = NEXT (name) (fd);                                                   \
		turn_end_sync (&turn, done == 0 ? owed : 0, 0);                            \
		return done;                                                               \
	}

WRAP_SYNC (fsync)
WRAP_SYNC (fdatasync)

/* ---- closed ---- */

EXPORT int
close (int fd)
{
	struct turn turn;
	int done, counts;

	if (fd >= 0 && process_kept ((unsigned int)fd, (unsigned int)fd) == fd)
		return 0;
	counts = turn_begin_sync (&turn, fd);
	files_closed (fd);
	done = NEXT (close) (fd);
	if (counts)
		turn_end_sync (&turn, 0, 0);
	return done;
}

/* Since glibc 2.34; earlier, no caller may find that ours does not work. */
extern int close_range (unsigned int first, unsigned int last, int flags);
extern void closefrom (int first);
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1 << 2)
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

typedef int close_all (unsigned int first, unsigned int last, int flags);

static int
close_others (close_all *next, unsigned int first, unsigned int last, int flags)
{
	for (int kept; (kept = process_kept (first, last)) >= 0;
	     first = (unsigned int)kept + 1) {
		if ((unsigned int)kept > first
		    && next (first, (unsigned int)kept - 1, flags) < 0)
			return -1;
		if ((unsigned int)kept == last)
			return 0;
	}
	return next (first, last, flags);
}

/* What another library has of this name, closefrom does not call. */
static int
close_by_kernel (unsigned int first, unsigned int last, int flags)
{
	return SYSTEM_CALL (close_range, first, last, flags) < 0 ? -1 : 0;
}

EXPORT int
close_range (unsigned int first, unsigned int last, int flags)
{
	close_all *next = NEXT (close_range);

	if (!next) {
		ERRNO = ENOSYS;
		return -1;
	}
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		files_closed_range (first, last);
	return close_others (next, first, last, flags);
}

EXPORT void
closefrom (int first)
{
	unsigned int from = first < 0 ? 0 : (unsigned int)first;

	files_closed_range (from, UINT_MAX);
	if (process_kept (from, UINT_MAX) < 0
	    || close_others (close_by_kernel, from, UINT_MAX, 0) < 0)
		NEXT (closefrom) (first);
}

/* ---- copied ---- */

EXPORT int
dup (int fd)
{
	int copy = NEXT (dup) (fd);

	if (copy >= 0)
		files_duplicated (fd, copy);
	return copy;
}

EXPORT int
dup2 (int fd, int copy)
{
	int done;

	if (fd != copy)
		files_closed (copy);
	done = NEXT (dup2) (fd, copy);
	if (done >= 0)
		files_duplicated (fd, copy);
	return done;
}

EXPORT int
dup3 (int fd, int copy, int flags)
{
	int done;

	if (fd != copy)
		files_closed (copy);
	done = NEXT (dup3) (fd, copy, flags);
	if (done >= 0)
		files_duplicated (fd, copy);
	return done;
}

/* ---- locked ---- */

EXPORT int
flock (int fd, int operation)
{
	int done = NEXT (flock) (fd, operation);

	if (done == 0 && (operation & LOCK_UN))
		files_unlocked (fd, 0, FILES_LOCK_END);
	else if (done == 0)
		files_locked (fd, 0, FILES_LOCK_END);
	return done;
}

struct range {
	uint64_t begin, end;
};

/* From `from` on, or before it where length is negative; 0: to the end. */
static struct range
range_from (int64_t from, int64_t length)
{
	if (length < 0)
		return (struct range){ (uint64_t)(from + length), (uint64_t)from };
	return (struct range){ (uint64_t)from,
			       length ? (uint64_t)(from + length) : FILES_LOCK_END };
}

/* Zero where it cannot be told: then the range is larger than it is, and held longer. */
static int64_t
whence_of (int fd, int whence)
{
	struct stat status;
	int64_t from = 0;

	if (whence == SEEK_CUR)
		from = SYSTEM_CALL (lseek, fd, 0, SEEK_CUR);
	else if (whence == SEEK_END && SYSTEM_CALL (fstat, fd, &status) == 0)
		from = status.st_size;
	return from < 0 ? 0 : from;
}

static void
note_lock (int fd, int is_unlock, struct range range)
{
	if (is_unlock)
		files_unlocked (fd, range.begin, range.end);
	else
		files_locked (fd, range.begin, range.end);
}

#define WRAP_LOCKF(name, offset_type)                                                      \
	EXPORT int name (int fd, int operation, offset_type length)                        \
	{                                                                                  \
		int done = NEXT (name) (fd, operation, length);                            \
                                                                                           \
		if (done == 0 && operation != F_TEST)                                      \
			note_lock (fd, operation == F_ULOCK,                               \
				   range_from (whence_of (fd, SEEK_CUR), length));         \
		return done;                                                               \
	}

WRAP_LOCKF (lockf, off_t)
WRAP_LOCKF (lockf64, off64_t)

/* struct flock and flock64 are one on 64-bit machines. */
_Static_assert(sizeof (struct flock) == sizeof (struct flock64), "64-bit only");

static void
note_control (int fd, int command, const void *argument, int done)
{
	const struct flock *lock = argument;

	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		files_duplicated (fd, done);
		break;
	case F_SETFL:
		files_forget (fd);
		break;
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		note_lock (fd, lock->l_type == F_UNLCK,
			   range_from (whence_of (fd, lock->l_whence) + lock->l_start,
				       lock->l_len));
		break;
	default:
		break;
	}
}

/* Whatever the command's argument is, it is passed as a pointer would be. */
#define WRAP_CONTROL(name)                                                                 \
	EXPORT int name (int fd, int command, ...)                                         \
	{                                                                                  \
		va_list values;                                                            \
		void *argument;                                                            \
		int done;                                                                  \
                                                                                           \
		va_start (values, command);                                                \
		argument = va_arg (values, void *);                                        \
		va_end (values);                                                           \
		done = NEXT (name) (fd, command, argument);                                \
		if (done >= 0)                                                             \
			note_control (fd, command, argument, done);                        \
		return done;                                                               \
	}

WRAP_CONTROL (fcntl)
WRAP_CONTROL (fcntl64)
