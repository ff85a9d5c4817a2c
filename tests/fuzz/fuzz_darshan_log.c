/*
 * Any bytes as the regions of a Darshan log: the reader refuses them with a reason, or
 * every row it hands over is one that can be computed with; and they are measured, or
 * refused with a reason.
 *
 * A library made of the input stands in for libdarshan-util: whatever that reads out of a
 * log is chosen by the fuzzer. The regions, which the reader unpacks itself, lie in a file
 * in memory.
 * tests/data and test_reader_c.py try the library itself, which runs in processes of its
 * own (classifier/sluice/ingest/workers.py) because a damaged log may crash it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <libdeflate.h>

#include "darshan.h"
#include "reader.h"

/* What the first bytes of an input say; those that are missing are 0. */
struct head {
	char version[8];
	int64_t uid, start, seconds, nprocs, jobid;
	double runtime;
	uint8_t swapped;
	uint8_t compression;
	uint8_t is_plain; /* compress the regions here: the fuzzer cannot make a checksum */
	uint8_t versions[7];
	/* POSIX, MPI-IO, STDIO, names, Lustre, heatmap, H5D, DFS */
	uint16_t lengths[8];
};

struct input {
	struct head head;
	const uint8_t *bytes;
	size_t size;
};

static const int module_of[]
    = { DARSHAN_POSIX,	 DARSHAN_MPIIO, DARSHAN_STDIO, DARSHAN_LUSTRE,
	DARSHAN_HEATMAP, DARSHAN_H5D,	DARSHAN_DFS };
enum { MODULES = sizeof module_of / sizeof *module_of, FIRST = 4096 };

/* One log is open at a time. */
static struct input input;
static struct darshan_handle handle;
static struct darshan_state state = { .file = -1 };
static uint64_t end_of_file;

static const uint8_t *
take (struct input *from, size_t size)
{
	const uint8_t *bytes = from->bytes;
	if (size > from->size)
		return NULL;
	from->bytes += size;
	from->size -= size;
	return bytes;
}

static struct darshan_region
store (const void *bytes, size_t size)
{
	struct darshan_region region = { FIRST + end_of_file, size };
	if (pwrite (state.file, bytes, size, (off_t)region.offset) != (ssize_t)size)
		abort ();
	end_of_file += size;
	return region;
}

static struct darshan_region
store_packed (const void *bytes, size_t size)
{
	static struct libdeflate_compressor *packer;
	if (!packer)
		packer = libdeflate_alloc_compressor (1);
	size_t room = libdeflate_zlib_compress_bound (packer, size);
	void *packed = malloc (room);
	if (!packed)
		return (struct darshan_region){ 0 };
	size_t got = libdeflate_zlib_compress (packer, bytes, size, packed, room);
	struct darshan_region region = store (packed, got);
	free (packed);
	return region;
}

/* The next region of the input; one that says it is longer than the file is cut there. */
static struct darshan_region
next_region (uint16_t length)
{
	size_t size = length < input.size ? length : input.size;
	const uint8_t *bytes = take (&input, size);
	if (length == 0)
		return (struct darshan_region){ 0 };
	if (input.head.compression == 0 && input.head.is_plain)
		return store_packed (bytes, size);
	struct darshan_region region = store (bytes, size);
	region.length = length;
	return region;
}

static struct darshan_handle *
open_input (const char *path)
{
	(void)path;
	const uint16_t *lengths = input.head.lengths;
	if (state.file < 0)
		state.file = memfd_create ("log", 0);
	if (ftruncate (state.file, 0) < 0 || ftruncate (state.file, FIRST) < 0)
		abort ();
	end_of_file = 0;
	memset (&handle, 0, sizeof handle);
	memcpy (handle.version, input.head.version, sizeof handle.version);
	handle.swapped = input.head.swapped & 1;
	handle.compression = input.head.compression;
	handle.job = (struct darshan_region){ 1328, 64 };
	handle.state = &state;
	for (int i = 0; i < MODULES; i++)
		handle.versions[module_of[i]] = input.head.versions[i];
	handle.modules[DARSHAN_POSIX] = next_region (lengths[0]);
	handle.modules[DARSHAN_MPIIO] = next_region (lengths[1]);
	handle.modules[DARSHAN_STDIO] = next_region (lengths[2]);
	handle.names = next_region (lengths[3]);
	handle.modules[DARSHAN_LUSTRE] = next_region (lengths[4]);
	handle.modules[DARSHAN_HEATMAP] = next_region (lengths[5]);
	handle.modules[DARSHAN_H5D] = next_region (lengths[6]);
	handle.modules[DARSHAN_DFS] = next_region (lengths[7]);
	return &handle;
}

static void
close_input (struct darshan_handle *closed)
{
	(void)closed;
}

static int
get_job (struct darshan_handle *open, struct darshan_job *job)
{
	(void)open;
	const struct head *head = &input.head;
	*job = (struct darshan_job){
		.uid = head->uid,
		.start_sec = head->start,
		.end_sec = (int64_t)((uint64_t)head->start + (uint64_t)head->seconds),
		.nprocs = head->nprocs,
		.jobid = head->jobid,
	};
	return 0;
}

static int
get_runtime (struct darshan_handle *open, struct darshan_job job, double *seconds)
{
	(void)open;
	(void)job;
	*seconds = input.head.runtime;
	return 0;
}

/* As the library: up to 4 KiB, not terminated. */
static int
get_exe (struct darshan_handle *open, char *text)
{
	(void)open;
	memset (text, 'x', SLUICE_EXE_SIZE);
	return 0;
}

/* Rows */

#define COUNTERS(X)                                                                        \
	X (posix_opens)                                                                    \
	X (posix_opens_on_top)                                                             \
	X (posix_reads)                                                                    \
	X (posix_writes)                                                                   \
	X (posix_bytes_read)                                                               \
	X (posix_bytes_written)                                                            \
	X (stdio_opens)                                                                    \
	X (stdio_bytes_read)                                                               \
	X (stdio_bytes_written)                                                            \
	X (mpiio_bytes_written)                                                            \
	X (stripe_count)

static void
check_row (const struct sluice_file_row *row)
{
#define CHECK_COUNTER(name)                                                                \
	if (!(row->name >= 0) || isinf (row->name))                                        \
		abort ();
	COUNTERS (CHECK_COUNTER)
#undef CHECK_COUNTER
	for (int i = 0; i < SLUICE_SIZE_BINS; i++)
		if (!(row->posix_size_read[i] >= 0) || !(row->posix_size_write[i] >= 0))
			abort ();
	if (isnan (row->read_time) || isnan (row->write_time) || isnan (row->meta_time)
	    || isnan (row->slowest_time) || isnan (row->read_start)
	    || isnan (row->write_start) || isnan (row->read_end) || isnan (row->write_end))
		abort ();
	if (row->owner < -1 || row->modules < 1 || row->modules > 15)
		abort ();
}

static void
check_log (const struct sluice_log *log)
{
	for (int64_t i = 0; i < log->row_count; i++)
		check_row (&log->rows[i]);
	for (int64_t i = 0; i < log->bins; i++)
		if (!(log->bins_written[i] >= 0) || !(log->bins_read[i] >= 0))
			abort ();
	if (log->nprocs < 1 || strlen (log->exe) >= sizeof log->exe
	    || strlen (log->format) >= sizeof log->format)
		abort ();
}

static void
check_measurement (const struct sluice_log *log)
{
	struct sluice_measurement found;
	struct sluice_error err = { "" };
	if (sluice_log_measure (log, &found, &err) < 0) {
		if (!err.text[0])
			abort (); /* refused without a reason */
		return;
	}
	if (!(found.coverage > 0 && found.coverage <= 1)
	    || found.numbers.nprocs != (double)log->nprocs)
		abort ();
}

static void
start (const uint8_t *data, size_t size)
{
	memset (&input, 0, sizeof input);
	memcpy (&input.head, data, size < sizeof input.head ? size : sizeof input.head);
	input.bytes = data + (size < sizeof input.head ? size : sizeof input.head);
	input.size = size < sizeof input.head ? 0 : size - sizeof input.head;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	static const char *const names[POSIX_COUNTERS]
	    = { [0 ... POSIX_COUNTERS - 1] = "MODULE_COUNTER" };
	static struct sluice_library library = {
		.open = open_input,
		.close = close_input,
		.get_job = get_job,
		.get_runtime = get_runtime,
		.get_exe = get_exe,
		.posix_counters = names,
		.stdio_counters = names,
		.mpiio_counters = names,
	};
	struct sluice_error err = { "" };
	struct sluice_log log;

	if (!library.unpacker)
		library.unpacker = libdeflate_alloc_decompressor ();
	start (data, size);
	if (sluice_log_read (&library, "", &log, &err) == 0) {
		check_log (&log);
		check_measurement (&log);
	} else if (!err.text[0])
		abort (); /* refused without a reason */
	sluice_log_free (&log);
	return 0;
}
