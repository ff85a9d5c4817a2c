#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* _exit: what stdio buffers belongs to the process that was forked from. */

void
fail (const char *subject, const char *what)
{
	fprintf (stderr, "sluice-probe: %s: %s: %s\n", subject, what, strerror (errno));
	_exit (EXIT_IO);
}

void
give_up (enum exit_code code, const char *format, ...)
{
	va_list arguments;

	fputs ("sluice-probe: ", stderr);
	va_start (arguments, format);
	vfprintf (stderr, format, arguments);
	va_end (arguments);
	fputc ('\n', stderr);
	_exit (code);
}
