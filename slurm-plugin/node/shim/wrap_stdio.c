/*
 * Output by stdio. What it writes for itself, libc calls where no preload can stand in
 * front, so we stand in front of what fills its buffers: bytes count when they reach the
 * buffer, and a call that is about to empty it is one that writes. Of the buffers that libc
 * empties at exit, the bytes are counted and the write is not.
 *
 * Wide characters are not seen.
 */
#include <stdarg.h>

#include "libc.h"
#include "next.h"
#include "turn.h"

/* Before it has written once a stream has no buffer; it will be of about this size. */
enum { ASSUMED_BUFFER = 4096, ASSUMED_TEXT = 128 };

struct stream {
	FILE *file;
	int fd;
	int writes; /* its turn has begun */
	size_t pending, space;
	struct turn turn;
};

/* What the buffer of the stream that this thread filled last held then: that was counted.
 */
static _Thread_local struct {
	FILE *file;
	size_t pending;
} counted __attribute__ ((tls_model ("initial-exec")));

static int
descriptor (FILE *file)
{
	int before = ERRNO, fd = file ? LIBC (fileno) (file) : -1;
	ERRNO = before;
	return fd;
}

/* What still goes into its buffer; 0 where it has none, or keeps no more than a line. */
static size_t
space (FILE *file)
{
	size_t size = LIBC (__fbufsize) (file), pending = LIBC (__fpending) (file);
	return size <= 1 || LIBC (__flbf) (file) || pending > size ? 0 : size - pending;
}

/* Whether so much more would have it write. */
static int
would_write (FILE *file, size_t size)
{
	return size > (LIBC (__fbufsize) (file) ? space (file) : ASSUMED_BUFFER);
}

/* Whether its file counts. */
static int
stream_begin (struct stream *stream, FILE *file, size_t size)
{
	stream->fd = descriptor (file);
	if (!files_find (process_words (), stream->fd).counts)
		return 0;
	stream->file = file;
	stream->pending = LIBC (__fpending) (file);
	stream->space = space (file);
	stream->writes = would_write (file, size) && turn_begin (&stream->turn, stream->fd);
	return 1;
}

/* How many writes moved as much out of the buffer: a buffer is filled up and written, and
 * what is then left of a large piece goes past it. 0 also where threads confuse us. */
static uint64_t
writes_done (const struct stream *stream, size_t added)
{
	size_t pending = LIBC (__fpending) (stream->file), had = stream->pending + added;

	if (pending >= had)
		return 0;
	return stream->space > 0 && had - pending > stream->pending + stream->space ? 2 : 1;
}

static void
stream_end (struct stream *stream, size_t added)
{
	if (stream->writes)
		turn_end (&stream->turn, (int64_t)added, writes_done (stream, added));
	else if (added)
		turn_count (stream->fd, added, writes_done (stream, added));
	counted.file = stream->file;
	counted.pending = LIBC (__fpending) (stream->file);
}

/* Whether it counts what programs write; if not, nothing but the next function is called.
 * `added` is an expression of `done`. */
#define WRAP(type, name, parameters, arguments, file, size, added)                         \
	EXPORT type name parameters                                                        \
	{                                                                                  \
		struct stream stream;                                                      \
		type done;                                                                 \
                                                                                           \
		if (!process_words () || !stream_begin (&stream, file, size))              \
			return NEXT (name) arguments;                                      \
		done = NEXT (name) arguments;                                              \
		stream_end (&stream, added);                                               \
		return done;                                                               \
	}

#define WRAP_BLOCK(name)                                                                   \
	WRAP (size_t, name, (const void *data, size_t size, size_t count, FILE *file),     \
	      (data, size, count, file), file, size *count, done *size)
#define WRAP_TEXT(name)                                                                    \
	WRAP (int, name, (const char *text, FILE *file), (text, file), file,               \
	      LIBC (strlen) (text), done == EOF ? 0 : LIBC (strlen) (text))
#define WRAP_CHARACTER(name)                                                               \
	WRAP (int, name, (int character, FILE *file), (character, file), file, 1,          \
	      done == EOF ? 0 : 1)
#define WRAP_STDOUT(name)                                                                  \
	WRAP (int, name, (int character), (character), libc_stdout (), 1,                  \
	      done == EOF ? 0 : 1)

#undef putc
#undef putchar
#undef fputc_unlocked
#undef putc_unlocked
#undef putchar_unlocked
#undef fwrite_unlocked
#undef fputs_unlocked
extern int _IO_putc (int character, FILE *file);
extern int __overflow (FILE *file, int character);

WRAP_BLOCK (fwrite)
WRAP_BLOCK (fwrite_unlocked)
WRAP_TEXT (fputs)
WRAP_TEXT (fputs_unlocked)
WRAP (int, puts, (const char *text), (text), libc_stdout (), LIBC (strlen) (text) + 1,
      done == EOF ? 0 : LIBC (strlen) (text) + 1)
WRAP_CHARACTER (fputc)
WRAP_CHARACTER (fputc_unlocked)
WRAP_CHARACTER (putc)
WRAP_CHARACTER (putc_unlocked)
WRAP_CHARACTER (_IO_putc)
WRAP_STDOUT (putchar)
WRAP_STDOUT (putchar_unlocked)
WRAP (int, putw, (int word, FILE *file), (word, file), file, sizeof word,
      done == EOF ? 0 : sizeof word)

/* What putc_unlocked becomes in a program: it fills the buffer by itself, and calls this
 * when it is full. So what is in the buffer since the last other call was not counted. */
EXPORT int
__overflow (FILE *file, int character)
{
	struct stream stream;
	size_t had = counted.file == file ? counted.pending : 0;
	int done;

	if (!process_words () || !stream_begin (&stream, file, SIZE_MAX))
		return NEXT (__overflow) (file, character);
	done = NEXT (__overflow) (file, character);
	if (done != EOF && stream.pending > had)
		turn_count (stream.fd, stream.pending - had, 0);
	stream_end (&stream, done == EOF ? 0 : 1);
	return done;
}

/* ---- formatted ---- */

#undef vprintf
extern int __fprintf_chk (FILE *file, int flag, const char *format, ...);
extern int __vfprintf_chk (FILE *file, int flag, const char *format, va_list values);
extern int __printf_chk (int flag, const char *format, ...);
extern int __vprintf_chk (int flag, const char *format, va_list values);

#define WRAP_VALUES(name, parameters, arguments, file)                                     \
	WRAP (int, name, parameters, arguments, file, ASSUMED_TEXT,                        \
	      done < 0 ? 0 : (size_t)done)

WRAP_VALUES (vfprintf, (FILE * file, const char *format, va_list values),
	     (file, format, values), file)
WRAP_VALUES (vprintf, (const char *format, va_list values), (format, values),
	     libc_stdout ())
WRAP_VALUES (__vfprintf_chk, (FILE * file, int flag, const char *format, va_list values),
	     (file, flag, format, values), file)
WRAP_VALUES (__vprintf_chk, (int flag, const char *format, va_list values),
	     (flag, format, values), libc_stdout ())

/* Counted like what takes the values as a list, which has to come from the same library. */
#define WRAP_FORMAT(name, parameters, of_values, arguments, file)                          \
	EXPORT int name parameters                                                         \
	{                                                                                  \
		__typeof__ (&of_values) next = NEXT_ALONGSIDE (name, of_values);           \
		struct stream stream;                                                      \
		va_list values;                                                            \
		int done, counts;                                                          \
                                                                                           \
		if (!next)                                                                 \
			PASS_ON (name);                                                    \
		counts = process_words () && stream_begin (&stream, file, ASSUMED_TEXT);   \
		va_start (values, format);                                                 \
		done = next arguments;                                                     \
		va_end (values);                                                           \
		if (counts)                                                                \
			stream_end (&stream, done < 0 ? 0 : (size_t)done);                 \
		return done;                                                               \
	}

WRAP_FORMAT (fprintf, (FILE * file, const char *format, ...), vfprintf,
	     (file, format, values), file)
WRAP_FORMAT (printf, (const char *format, ...), vprintf, (format, values), libc_stdout ())
WRAP_FORMAT (__fprintf_chk, (FILE * file, int flag, const char *format, ...),
	     __vfprintf_chk, (file, flag, format, values), file)
WRAP_FORMAT (__printf_chk, (int flag, const char *format, ...), __vprintf_chk,
	     (flag, format, values), libc_stdout ())

/* ---- emptied and closed ---- */

#define WRAP_FLUSH(name)                                                                   \
	EXPORT int name (FILE *file)                                                       \
	{                                                                                  \
		struct stream stream;                                                      \
		int done;                                                                  \
                                                                                           \
		if (!file || !process_words () || LIBC (__fpending) (file) == 0            \
		    || !stream_begin (&stream, file, SIZE_MAX))                            \
			return NEXT (name) (file);                                         \
		done = NEXT (name) (file);                                                 \
		stream_end (&stream, 0);                                                   \
		return done;                                                               \
	}

WRAP_FLUSH (fflush)
WRAP_FLUSH (fflush_unlocked)

/* Closing never waits. */
EXPORT int
fclose (FILE *file)
{
	int fd, done;
	uint64_t writes;
	struct turn turn;

	if (!process_words ())
		return NEXT (fclose) (file);
	fd = descriptor (file);
	writes = LIBC (__fpending) (file) > 0;
	if (!turn_begin_sync (&turn, fd)) {
		files_closed (fd);
		return NEXT (fclose) (file);
	}
	files_closed (fd);
	done = NEXT (fclose) (file);
	turn_end_sync (&turn, 0, writes);
	return done;
}

EXPORT int
pclose (FILE *file)
{
	if (process_words ())
		files_closed (descriptor (file));
	return NEXT (pclose) (file);
}

#define WRAP_REOPEN(name)                                                                  \
	EXPORT FILE *name (const char *path, const char *mode, FILE *file)                 \
	{                                                                                  \
		if (process_words ())                                                      \
			files_closed (descriptor (file));                                  \
		return NEXT (name) (path, mode, file);                                     \
	}

WRAP_REOPEN (freopen)
WRAP_REOPEN (freopen64)
