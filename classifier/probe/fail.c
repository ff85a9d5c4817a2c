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
	char text[8192];

	va_start (arguments, format);
	vsnprintf (text, sizeof text, format, arguments);
	va_end (arguments);
	/* At once: the other processes may be saying the same. */
	fprintf (stderr, "sluice-probe: %s\n", text);
	_exit (code);
}
