/* The reader of Darshan logs. reader_test LIBRARY LOG... reads these whole logs. */
#include "check.h"
#include "names.h"
#include "reader.h"

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
	};
	static const char *const others[] = {
		"/scratch/out.h5", "/scratch/so", "/data/x.sox",
		"/lib/python/x",   "/a/py",	  "",
		"/data/file.so.x",
	};
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		CHECK (name_of_program (programs[i]));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		CHECK (!name_of_program (others[i]));
	CHECK (name_stem ("/a/dump.100") == name_stem ("/a/dump.20000"));
	CHECK (name_stem ("/a/dump.100") != name_stem ("/a/dump"));
	CHECK (name_stem ("/a/dump.1.2") != name_stem ("/a/dump.12"));
	CHECK (name_stem ("") != 0);
}

int
main (int argc, char **argv)
{
	struct sluice_error err;
	struct sluice_log log;
	names_test ();
	CHECK (sluice_library_load ("/nowhere", &err) == NULL);
	struct sluice_library *library
	    = argc > 1 ? sluice_library_load (argv[1], &err) : NULL;
	CHECK (library != NULL);
	for (int i = 2; library && i < argc; i++) {
		CHECK (sluice_log_read (library, argv[i], &log, &err) == 0);
		CHECK (log.nprocs >= 1);
		CHECK (sluice_log_scan (library, argv[i]) >= 0);
		sluice_log_free (&log);
	}
	if (library) {
		CHECK (sluice_log_read (library, "/dev/null", &log, &err) < 0);
		sluice_log_free (&log);
	}
	sluice_library_unload (library);
	return check_report ();
}
