/* The reader of Darshan logs. reader_test LIBRARY LOG... reads these whole logs. */
#include "check.h"
#include "names.h"
#include "reader.h"
#include "region.h"

#include <string.h>

static uint64_t
stem_of (const char *name)
{
	char text[32];
	sluice_copy_text (text, sizeof text, name);
	return name_stem (text, strlen (text));
}

static void
names_test (void)
{
	static const char *const programs[] = {
		"/usr/lib/python3.11/os.py",
		"/opt/x/libfoo.so.6.1",
		"/a/b.pyc",
		"/usr/lib64/python3.9/lib.txt",
		"/x/site-packages/y/z",
		"/venv/pyvenv.cfg",
		"/lib/python3/x",
		"/j/rt.jar",
		"/lib/python/lib/python3.9/x",
		"/a/__pycache__/b/",
	};
	static const char *const others[] = {
		"/scratch/out.h5", "/scratch/so", "/data/x.sox",
		"/lib/python/x",   "/a/py",	  "",
		"/data/file.so.x",
	};
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		CHECK (name_of_program (programs[i], strlen (programs[i])));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		CHECK (!name_of_program (others[i], strlen (others[i])));
	CHECK (stem_of ("/a/dump.100") == stem_of ("/a/dump.20000"));
	CHECK (stem_of ("/a/dump.100") != stem_of ("/a/dump"));
	CHECK (stem_of ("/a/dump.1.2") != stem_of ("/a/dump.12"));
	CHECK (stem_of ("/a/7.x") == stem_of ("/a/10.x"));
	CHECK (stem_of ("") != 0);
}

/* Records as they are unpacked here against the library's */

static int
is_gap (const struct form *form, size_t place)
{
	for (int i = 0; i < FORM_GAPS; i++)
		if (form->gaps[i].words > 0 && place >= form->gaps[i].place
		    && place < form->gaps[i].place + (size_t)form->gaps[i].words)
			return 1;
	return 0;
}

/* What region.h says of the library. */
static int
is_mistaken (const struct form *form, int swapped, size_t place)
{
	size_t times = offsetof (struct darshan_posix, times) / sizeof (uint64_t);
	if (form->module != DARSHAN_POSIX || form->version >= 4)
		return 0;
	return place >= times + POSIX_FASTEST_RANK_TIME
	       || (swapped && place >= times + POSIX_META_TIME
		   && place <= times + POSIX_MAX_WRITE_TIME);
}

static int
same_record (const struct form *form, int swapped, const union darshan_record *ours,
	     const union darshan_record *theirs, size_t size)
{
	for (size_t at = 0; at < size; at += sizeof (uint64_t)) {
		size_t place = at / sizeof (uint64_t);
		if (!is_gap (form, place) && !is_mistaken (form, swapped, place)
		    && memcmp ((const char *)ours + at, (const char *)theirs + at,
			       sizeof (uint64_t))
			   != 0)
			return 0;
	}
	return 1;
}

static void
same_records_test (const struct sluice_library *library, const char *path, int module,
		   size_t size)
{
	struct region region;
	struct sluice_error err;
	struct darshan_handle *handle = library->open (path);
	const struct form *form = form_find (module, handle->versions[module]);
	CHECK (region_open (&region, library, handle, &err) == 0);
	CHECK (region_start (&region, handle->modules[module], "records") == 0);
	size_t taken = 0;
	while (form && region_read (&region, taken) > 0)
		for (taken = 0; region.size - taken >= form->size; taken += form->size) {
			union darshan_record room, theirs;
			void *place = &theirs;
			union darshan_record *ours = form_take (form, region.bytes + taken,
								handle->swapped, &room);
			if (!ours)
				continue;
			CHECK (library->get_record (handle, module, &place) == 1);
			CHECK (same_record (form, handle->swapped, ours, &theirs, size));
		}
	region_close (&region);
	library->close (handle);
}

int
main (int argc, char **argv)
{
	struct sluice_error err;
	struct sluice_log log;
	struct sluice_measurement found;
	names_test ();
	CHECK (sluice_library_load ("/nowhere", &err) == NULL);
	struct sluice_library *library
	    = argc > 1 ? sluice_library_load (argv[1], &err) : NULL;
	CHECK (library != NULL);
	for (int i = 2; library && i < argc; i++) {
		CHECK (sluice_log_read (library, argv[i], &log, &err) == 0);
		CHECK (log.nprocs >= 1);
		CHECK (sluice_log_measure (&log, &found, &err) == 0);
		CHECK (found.coverage > 0 && found.coverage <= 1);
		CHECK (sluice_log_scan (library, argv[i]) >= 0);
		sluice_log_free (&log);
		same_records_test (library, argv[i], DARSHAN_POSIX,
				   sizeof (struct darshan_posix));
		same_records_test (library, argv[i], DARSHAN_MPIIO,
				   sizeof (struct darshan_mpiio));
		same_records_test (library, argv[i], DARSHAN_STDIO,
				   sizeof (struct darshan_stdio));
	}
	if (library) {
		CHECK (sluice_log_read (library, "/dev/null", &log, &err) < 0);
		sluice_log_free (&log);
	}
	sluice_library_unload (library);
	return check_report ();
}
