/*
 * names FILE: writes by stdio and by system calls, and prints what each call returned. Of
 * what it calls, nothing is among the names that test_shim_names.py defines beside it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { TIMES = 200 };

static char block[64 << 10];

static void
by_stdio (const char *path)
{
	FILE *file = fopen (path, "w");

	for (int i = 0; i < TIMES; i++) {
		fprintf (file, "%d %g %s %d %d %d %d %Lg\n", i, i / 8.0, "text", 1, 2, 3, 4,
			 (long double)i);
		fputs ("line\n", file);
		fputc ('x', file);
	}
	printf ("fwrite %zu\n", fwrite (block, 1, sizeof block, file));
	printf ("fflush %d\n", fflush (file));
	printf ("fclose %d\n", fclose (file));
}

static void
by_system_calls (const char *path)
{
	int fd = open (path, O_WRONLY | O_APPEND), copy = dup (fd);

	for (int i = 0; i < TIMES; i++)
		if (write (fd, block, 1000) != 1000)
			exit (4);
	printf ("dprintf %d\n", dprintf (fd, "%d %g\n", 7, 1.5));
	printf ("flock %d\n", flock (fd, LOCK_SH));
	printf ("write %zd\n", write (copy, block, 10));
	printf ("fsync %d\n", fsync (fd));
	printf ("close %d %d\n", close (fd), close (copy));
}

int
main (int count, char **words)
{
	if (count != 2)
		return 2;
	by_stdio (words[1]);
	by_system_calls (words[1]);
	puts ("done");
	closefrom (3);
	return 0;
}
