#include "io_dir.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Replace %j and %%. The length, or -1: too long, or another letter. */
static int
expand (const char *text, uint32_t job_id, char out[IO_DIR_SIZE])
{
	char id[12];
	size_t used = 0;

	snprintf (id, sizeof id, "%" PRIu32, job_id);
	for (; *text; text++) {
		char plain[2] = { *text, '\0' };
		const char *piece = plain;
		if (*text == '%') {
			text++;
			if (*text == 'j')
				piece = id;
			else if (*text != '%')
				return -1;
		}
		if (used + strlen (piece) >= IO_DIR_SIZE)
			return -1;
		memcpy (out + used, piece, strlen (piece) + 1);
		used += strlen (piece);
	}
	return (int)used;
}

int
io_dir_parse (const char *text, uint32_t job_id, char out[IO_DIR_SIZE])
{
	char path[IO_DIR_SIZE];
	int length = expand (text, job_id, path);

	if (length <= 0 || path[0] != '/')
		return -1;
	while (length > 0 && path[length - 1] == '/')
		path[--length] = '\0';
	const char *slash = strrchr (path, '/');
	if (!slash || strcmp (slash, "/.") == 0 || strcmp (slash, "/..") == 0)
		return -1;
	if (out)
		memcpy (out, path, (size_t)length + 1);
	return 0;
}
