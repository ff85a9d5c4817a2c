/*
 * shim_writes FILE ROUNDS: writes 1 KiB to the same place, 100 times by the C library's own
 * pwrite and 100 times by the one that a preloaded library may stand in front of, and
 * prints of each round the nanoseconds of the processor that a write took: the first, the
 * second.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 1024, WRITES = 100 };

typedef ssize_t write_at (int fd, const void *data, size_t size, off_t offset);

static double
now_ns (void)
{
	struct timespec now;
	clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double
cost (write_at *write_block, int fd)
{
	static char block[SIZE];
	double begin = now_ns ();

	for (int i = 0; i < WRITES; i++)
		if (write_block (fd, block, SIZE, 0) != SIZE)
			exit (1);
	return (now_ns () - begin) / WRITES;
}

int
main (int count, char **words)
{
	int fd = count == 3 ? open (words[1], O_CREAT | O_RDWR | O_TRUNC, 0644) : -1;
	void *libc = dlopen ("libc.so.6", RTLD_NOW);
	write_at *plain = libc ? (write_at *)dlsym (libc, "pwrite") : NULL;

	if (fd < 0 || !plain)
		return 1;
	for (int round = 0; round < atoi (words[2]); round++) {
		double first = cost (plain, fd);
		printf ("%.1f %.1f\n", first, cost (pwrite, fd));
	}
	return 0;
}
