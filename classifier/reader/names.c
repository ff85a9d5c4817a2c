#include "names.h"

#include <stdlib.h>
#include <string.h>

static struct file *
slot_of (const struct files *files, uint64_t id)
{
	size_t slot = (size_t)(id * 0x9e3779b97f4a7c15u >> 32) & (files->slot_count - 1);
	while (files->slots[slot].id && files->slots[slot].id != id)
		slot = (slot + 1) & (files->slot_count - 1);
	return &files->slots[slot];
}

int
files_of_rows (struct files *files, const struct sluice_file_row *rows, size_t count)
{
	files->slot_count = 4;
	while (files->slot_count < 2 * count)
		files->slot_count *= 2;
	files->slots = calloc (files->slot_count, sizeof *files->slots);
	if (!files->slots)
		return -1;
	for (size_t i = 0; i < count; i++) {
		const struct sluice_file_row *row = &rows[i];
		if (!row->id)
			continue;
		struct file *file = slot_of (files, row->id);
		file->id = row->id;
		file->bytes += row->posix_bytes_read + row->stdio_bytes_read
			       + row->posix_bytes_written + row->stdio_bytes_written;
		file->read |= row->posix_bytes_read > 0 || row->stdio_bytes_read > 0;
		file->written
		    |= row->posix_bytes_written > 0 || row->stdio_bytes_written > 0;
	}
	return 0;
}

struct file *
files_find (const struct files *files, uint64_t id)
{
	struct file *file = slot_of (files, id);
	return file->id && file->id == id ? file : NULL;
}

void
files_into_rows (const struct files *files, struct sluice_file_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct file *file = files_find (files, rows[i].id);
		if (!file)
			continue;
		rows[i].stem = file->stem;
		rows[i].program = file->program;
		rows[i].stripe_count = file->stripe_count;
	}
}

void
files_free (struct files *files)
{
	free (files->slots);
	files->slots = NULL;
}

/* What a name says */

struct text {
	const char *bytes;
	size_t length;
};

#define TEXT(literal)                                                                      \
	{                                                                                  \
		literal, sizeof literal - 1                                                \
	}

/* Most names have another last byte, which is looked at first. */
static int
ends_with (const char *name, size_t length, struct text end)
{
	return length >= end.length && name[length - 1] == end.bytes[end.length - 1]
	       && memcmp (name + length - end.length, end.bytes, end.length) == 0;
}

/* The name from a slash on, likewise by the two bytes behind it. */
static int
starts_with (const char *place, struct text start)
{
	return place[1] == start.bytes[1] && place[2] == start.bytes[2]
	       && strncmp (place, start.bytes, start.length) == 0;
}

static int
is_program_folder (const char *place)
{
	static const struct text folders[]
	    = { TEXT ("/site-packages/"), TEXT ("/dist-packages/"), TEXT ("/dist-info/"),
		TEXT ("/__pycache__/") };
	static const struct text libraries[]
	    = { TEXT ("/lib/python"), TEXT ("/lib32/python"), TEXT ("/lib64/python") };
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
		if (starts_with (place, folders[i]))
			return 1;
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
		if (!starts_with (place, libraries[i]))
			continue;
		const char *version = place + libraries[i].length;
		size_t digits = strspn (version, "0123456789.");
		return digits > 0 && version[digits] == '/';
	}
	return 0;
}

/* Of a name with a dot: all of these have one. */
static int
has_program_end (const char *name, size_t length)
{
	static const struct text ends[] = {
		TEXT (".py"),	     TEXT (".pyc"),
		TEXT (".pyi"),	     TEXT (".pth"),
		TEXT (".jar"),	     TEXT (".class"),
		TEXT (".jl"),	     TEXT (".rb"),
		TEXT (".pl"),	     TEXT (".pm"),
		TEXT (".mod"),	     TEXT (".lua"),
		TEXT (".egg-info"),  TEXT (".zip"),
		TEXT ("pyvenv.cfg"), TEXT ("pybuilddir.txt"),
	};
	static const struct text object = TEXT (".so");
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (ends_with (name, length, ends[i]))
			return 1;
	while (length > 0 && strchr (".0123456789", name[length - 1])) /* libm.so.6 */
		length--;
	return ends_with (name, length, object);
}

int
name_of_program (const char *name, size_t length)
{
	if (memchr (name, '.', length) && has_program_end (name, length))
		return 1;
	for (const char *place = strchr (name, '/'); place; place = strchr (place + 1, '/'))
		if (is_program_folder (place))
			return 1;
	return 0;
}

uint64_t
name_stem (char *name, size_t length)
{
	/* Digits become 0, which no name has, and all but the first of a run go; without
	 * branches, which random names would take unforeseen. */
	for (size_t i = 0; i < length; i++)
		name[i] = name[i] >= '0' && name[i] <= '9' ? 0 : name[i];
	size_t size = 0;
	char before = 1;
	for (size_t i = 0; i < length; i++) {
		char byte = name[i];
		name[size] = byte;
		size += (byte | before) != 0;
		before = byte;
	}
	uint64_t hash = sluice_hash_bytes (name, size, 0);
	return hash ? hash : 1;
}

/* The region of names */

static void
keep (struct files *files, uint64_t id, char *name, size_t length)
{
	struct file *file = files_find (files, id);
	if (!file || length == 0)
		return;
	if (file->written)
		file->stem = name_stem (name, length);
	else
		file->program = file->read && name_of_program (name, length);
}

static uint64_t
id_at (const char *bytes, int swapped)
{
	uint64_t id;
	memcpy (&id, bytes, sizeof id);
	return swapped ? __builtin_bswap64 (id) : id;
}

/* Take apart (id, name, 0) as far as it goes; returns the bytes that were taken. */
static size_t
take_terminated (char *bytes, size_t size, int swapped, struct files *files)
{
	size_t taken = 0;
	while (size - taken > sizeof (uint64_t)) {
		char *name = bytes + taken + sizeof (uint64_t);
		char *end = memchr (name, 0, size - taken - sizeof (uint64_t));
		if (!end)
			break;
		keep (files, id_at (bytes + taken, swapped), name, (size_t)(end - name));
		taken = (size_t)(end + 1 - bytes);
	}
	return taken;
}

/* Likewise (id, 32-bit length, name), as format 3.00 has it. */
static size_t
take_counted (char *bytes, size_t size, int swapped, struct files *files)
{
	const size_t head = sizeof (uint64_t) + sizeof (uint32_t);
	size_t taken = 0;
	while (size - taken >= head) {
		uint32_t length;
		memcpy (&length, bytes + taken + sizeof (uint64_t), sizeof length);
		if (swapped)
			length = __builtin_bswap32 (length);
		if (length > size - taken - head)
			break;
		char *name = bytes + taken + head;
		char after = name[length]; /* the region has one byte more */
		name[length] = 0;
		keep (files, id_at (bytes + taken, swapped), name, strlen (name));
		name[length] = after;
		taken += head + length;
	}
	return taken;
}

static int
read_region (const struct darshan_handle *handle, struct region *region,
	     struct files *files)
{
	int counted = memcmp (handle->version, "3.00", 4) == 0;
	size_t taken = 0;
	int result;
	if (region_start (region, handle->names, "names of its files") < 0)
		return -1;
	while ((result = region_read (region, taken)) > 0)
		taken = (counted ? take_counted : take_terminated) (
		    region->bytes, region->size, handle->swapped, files);
	return result;
}

/* Whether a process has written several files. 1, 0, or -1: out of memory. */
static int
series_possible (const struct sluice_file_row *rows, size_t count)
{
	size_t slot_count = 4;
	while (slot_count < 2 * count)
		slot_count *= 2;
	uint64_t *writers = calloc (slot_count, sizeof *writers); /* owner + 2; 0: free */
	if (!writers)
		return -1;
	int found = 0;
	for (size_t i = 0; i < count && !found; i++) {
		if (!(rows[i].posix_bytes_written > 0 || rows[i].stdio_bytes_written > 0))
			continue;
		uint64_t writer = (uint64_t)rows[i].owner + 2;
		size_t slot
		    = (size_t)(writer * 0x9e3779b97f4a7c15u >> 32) & (slot_count - 1);
		while (writers[slot] && writers[slot] != writer)
			slot = (slot + 1) & (slot_count - 1);
		found = writers[slot] == writer;
		writers[slot] = writer;
	}
	free (writers);
	return found;
}

/* Names tell parts of a program among files that are only read, and series among those
 * that a process writes; in most logs there is nothing to tell. */
static int
wanted (const struct files *files, const struct sluice_file_row *rows, size_t count)
{
	for (size_t i = 0; i < files->slot_count; i++)
		if (files->slots[i].read && !files->slots[i].written)
			return 1;
	return series_possible (rows, count);
}

int
names_tell_nothing (const struct sluice_file_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].posix_bytes_read > 0 || rows[i].stdio_bytes_read > 0)
			return 0;
	return series_possible (rows, count) == 0;
}

void
names_by_id (const struct darshan_handle *handle, struct sluice_file_row *rows,
	     size_t count)
{
	for (size_t i = 0; handle->names.length > 0 && i < count; i++)
		rows[i].stem = rows[i].id;
}

/* Likewise where some were only read in part, or have a layout. */
static void
name_by_id (struct files *files)
{
	for (size_t i = 0; i < files->slot_count; i++)
		files->slots[i].stem = files->slots[i].id;
}

int
names_read (const struct darshan_handle *handle, struct region *region,
	    const struct sluice_file_row *rows, size_t count, struct files *files,
	    struct sluice_error *err)
{
	if (handle->names.length == 0)
		return 0;
	int needed = wanted (files, rows, count);
	if (needed < 0)
		return sluice_fail (err, "reading it needs too much memory");
	if (!needed) {
		name_by_id (files);
		return 0;
	}
	return read_region (handle, region, files);
}
