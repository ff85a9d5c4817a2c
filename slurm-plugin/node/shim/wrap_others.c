/*
 * Ways to write that are not seen, of which we note that they were opened; and what ends
 * or restricts a process.
 */
#include <aio.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "next.h"
#include "turn.h"

/* ---- mapped ---- */

#define WRAP_MMAP(name, offset_type)                                                       \
	EXPORT void *name (void *address, size_t length, int protection, int flags,        \
			   int fd, offset_type offset)                                     \
	{                                                                                  \
		void *mapped                                                               \
		    = NEXT (name) (address, length, protection, flags, fd, offset);        \
                                                                                           \
		if (fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE)           \
		    && mapped != MAP_FAILED)                                               \
			turn_uncovered (fd, length);                                       \
		return mapped;                                                             \
	}

WRAP_MMAP (mmap, off_t)
WRAP_MMAP (mmap64, off64_t)

/* ---- asynchronous ---- */

EXPORT int
aio_write (struct aiocb *block)
{
	turn_uncovered (block->aio_fildes, block->aio_nbytes);
	return NEXT (aio_write) (block);
}

EXPORT int
aio_write64 (struct aiocb64 *block)
{
	turn_uncovered (block->aio_fildes, block->aio_nbytes);
	return NEXT (aio_write64) (block);
}

/* Of libaio and liburing, whose files we do not know. */
struct io_uring;
struct io_uring_params;
extern int io_submit (void *context, long count, void **blocks);
extern int io_uring_queue_init (unsigned entries, struct io_uring *ring, unsigned flags);
extern int io_uring_queue_init_params (unsigned entries, struct io_uring *ring,
				       struct io_uring_params *parameters);

EXPORT int
io_submit (void *context, long count, void **blocks)
{
	__typeof__ (&io_submit) next = NEXT (io_submit);

	turn_uncovered (-1, 0);
	return next ? next (context, count, blocks) : -ENOSYS;
}

EXPORT int
io_uring_queue_init (unsigned entries, struct io_uring *ring, unsigned flags)
{
	__typeof__ (&io_uring_queue_init) next = NEXT (io_uring_queue_init);

	turn_uncovered (-1, 0);
	return next ? next (entries, ring, flags) : -ENOSYS;
}

EXPORT int
io_uring_queue_init_params (unsigned entries, struct io_uring *ring,
			    struct io_uring_params *parameters)
{
	__typeof__ (&io_uring_queue_init_params) next = NEXT (io_uring_queue_init_params);

	turn_uncovered (-1, 0);
	return next ? next (entries, ring, parameters) : -ENOSYS;
}

/* ---- restricted ---- */

static void
restricted (int has_filter)
{
	if (has_filter)
		process_end_at_exec ();
	turn_uncovered (-1, 0);
	process_restrict ();
}

/* libseccomp, too, first gives up new privileges by this call. */
EXPORT int
prctl (int option, ...)
{
	unsigned long values[4];
	va_list list;

	va_start (list, option);
	for (int i = 0; i < 4; i++)
		values[i] = va_arg (list, unsigned long);
	va_end (list);
	if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS)
		restricted (option == PR_SET_SECCOMP && values[0] == SECCOMP_MODE_FILTER);
	return NEXT (prctl) (option, values[0], values[1], values[2], values[3]);
}

/* libseccomp's own system call is not seen. */
extern int seccomp_load (void *context);

EXPORT int
seccomp_load (void *context)
{
	__typeof__ (&seccomp_load) next = NEXT (seccomp_load);

	restricted (1);
	return next ? next (context) : -ENOSYS;
}

/* ---- ended without destructors ---- */

EXPORT void
_exit (int status)
{
	process_exits ();
	NEXT (_exit) (status);
	__builtin_unreachable ();
}

EXPORT void
_Exit (int status)
{
	process_exits ();
	NEXT (_Exit) (status);
	__builtin_unreachable ();
}
