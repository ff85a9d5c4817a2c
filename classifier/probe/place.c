#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fail.h"

static const uint64_t instalment = 64 << 20; /* bytes */

struct room {
	uint64_t bytes, files; /* that may still be added */
};

static struct room
room_on (const struct place *place, double leave)
{
	struct statvfs fs;

	if (fstatvfs (place->fd, &fs) < 0)
		fail (place->path, "statvfs");

	double bytes = (double)fs.f_bavail * (double)fs.f_frsize
		       - leave * (double)fs.f_blocks * (double)fs.f_frsize;
	double files = (double)fs.f_favail - leave * (double)fs.f_files;
	struct room room = { UINT64_MAX, UINT64_MAX };

	/* File systems that make blocks or inodes as needed, or do not know how many they
	 * have, say that they have none. */
	if (fs.f_blocks > 0)
		room.bytes = bytes > 0 ? (uint64_t)bytes : 0;
	if (fs.f_files > 0)
		room.files = files > 0 ? (uint64_t)files : 0;
	return room;
}

static _Noreturn void
refuse (const char *path, double leave)
{
	give_up (EXIT_FULL,
		 "%s: less than %g %% of the file system would be left free; give a "
		 "shorter --duration, a smaller --volume or --file-size, or a smaller "
		 "--leave",
		 path, leave * 100.0);
}

/* What process `number` will have on its file system in the end; 0: not known. */
static uint64_t
space_of_process (const struct options *options, unsigned number)
{
	enum pattern pattern = pattern_of (options, number);
	uint64_t files = file_size_of (options, pattern) * options->files;

	switch (pattern) {
	case OWC:
		return options->volume;
	case AW:
		return files && (!options->volume || files < options->volume)
			   ? files
			   : options->volume;
	case WS:
		return options->chunk * options->files;
	case READ:
		return options->from ? 0 : files;
	default:
		return 0;
	}
}

struct allowance
place_allowance (const struct options *options, unsigned number)
{
	bool counted = space_of_process (options, number) > 0;

	return (struct allowance){ .takers = counted ? 1 : options->processes };
}

void
place_reserve (const struct place *place, const struct options *options,
	       struct allowance *allowance, uint64_t bytes, unsigned files)
{
	if (bytes > allowance->bytes || files > allowance->files) {
		struct room room = room_on (place, options->leave);
		/* Others take theirs at the same time. */
		uint64_t share = room.bytes / (4 * options->processes);
		uint64_t grant = share < instalment ? share : instalment;

		allowance->bytes = grant > bytes ? grant : bytes;
		allowance->files = room.files / (4 * options->processes) + files;
		if (bytes > room.bytes / allowance->takers
		    || files > room.files / allowance->takers)
			refuse (place->path, options->leave);
	}
	allowance->bytes -= bytes;
	allowance->files -= files;
}

/* The first place that has no room for the volume asked for; NULL: all have. */
static const struct place *
too_small (const struct place *places, const struct options *options)
{
	for (unsigned i = 0; i < options->directory_count; i++) {
		uint64_t needed = 0;

		for (unsigned p = 0; p < options->processes; p++)
			if (places[p % options->directory_count].device == places[i].device)
				needed += space_of_process (options, p);
		if (needed > room_on (&places[i], options->leave).bytes)
			return &places[i];
	}
	return NULL;
}

static int
make_place (struct place *place, const char *directory)
{
	struct stat facts;
	struct statvfs room; /* asked here already, where a failure leaves nothing */

	if (asprintf (&place->path, "%s/sluice-probe.XXXXXX", directory) < 0)
		fail (directory, "allocate");
	if (!mkdtemp (place->path))
		return -1;
	place->fd = open (place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place->fd < 0) {
		int error = errno;

		rmdir (place->path);
		errno = error;
		return -1;
	}
	if (fstat (place->fd, &facts) < 0 || fstatvfs (place->fd, &room) < 0)
		return -1;
	place->device = facts.st_dev;
	return 0;
}

struct place *
places_make (const struct options *options)
{
	struct place *places = calloc (options->directory_count, sizeof *places);

	if (!places)
		fail ("directories", "allocate");
	for (unsigned i = 0; i < options->directory_count; i++)
		places[i].fd = -1;
	for (unsigned i = 0; i < options->directory_count; i++)
		if (make_place (&places[i], options->directories[i]) < 0) {
			int error = errno;

			places_remove (places, options);
			errno = error;
			fail (options->directories[i], "make a directory in it");
		}
	const struct place *small = too_small (places, options);
	if (small) {
		const char *directory = options->directories[small - places];

		places_remove (places, options);
		refuse (directory, options->leave);
	}
	return places;
}

/* The probe makes no directories in its own, so what is in it are files. */
static unsigned
remove_files (const struct place *place, DIR *directory)
{
	unsigned removed = 0;

	rewinddir (directory);
	for (struct dirent *entry; (entry = readdir (directory));)
		if (strcmp (entry->d_name, ".") && strcmp (entry->d_name, "..")
		    && unlinkat (place->fd, entry->d_name, 0) == 0)
			removed++;
	return removed;
}

/* Again until nothing is found: a directory that changes while it is read may hide
 * some of its entries. */
static void
empty (const struct place *place)
{
	int copy = dup (place->fd);
	DIR *directory = copy < 0 ? NULL : fdopendir (copy);

	if (directory) {
		while (remove_files (place, directory) > 0)
			;
		closedir (directory);
	} else if (copy >= 0) {
		close (copy);
	}
}

void
places_remove (struct place *places, const struct options *options)
{
	for (unsigned i = 0; i < options->directory_count; i++) {
		struct place *place = &places[i];

		if (place->fd >= 0) {
			if (!options->keep) {
				empty (place);
				if (rmdir (place->path) < 0)
					fprintf (stderr, "sluice-probe: %s: remove: %s\n",
						 place->path, strerror (errno));
			}
			close (place->fd);
		}
		free (place->path);
	}
	free (places);
}
