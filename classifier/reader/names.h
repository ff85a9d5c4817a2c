/* What is known of files by their id alone: names, and Lustre's layout. */
#ifndef SLUICE_NAMES_H
#define SLUICE_NAMES_H

#include "reader.h"

#include "darshan.h"
#include "region.h"

struct file {
	uint64_t id; /* 0: a free slot; a file of that id stays unknown */
	uint64_t stem;
	double stripe_count;
	double bytes; /* read and written */
	signed char read, written, program;
};

struct files {
	struct file *slots; /* open addressing */
	size_t slot_count;
};

/* List the files of the rows. 0, or -1: out of memory. */
int files_of_rows (struct files *files, const struct sluice_file_row *rows, size_t count);
/* Return a listed file, or NULL. */
struct file *files_find (const struct files *files, uint64_t id);
/* Give the rows what is known of their files. */
void files_into_rows (const struct files *files, struct sluice_file_row *rows,
		      size_t count);
void files_free (struct files *files);

/* Whether names tell nothing of files, also without listing these: none was read, and no
 * process has written several. */
int names_tell_nothing (const struct sluice_file_row *rows, size_t count);
/* A lone file is a series of its own, whatever it is called: name the rows of such a log.
 */
void names_by_id (const struct darshan_handle *handle, struct sluice_file_row *rows,
		  size_t count);
/* Read the names of the listed files, if they tell anything. 0, or -1 and a reason. */
int names_read (const struct darshan_handle *handle, struct region *region,
		const struct sluice_file_row *rows, size_t count, struct files *files,
		struct sluice_error *err);

/* Whether a file that is only read is part of a program: a module, a library. */
int name_of_program (const char *name, size_t length);
/* Hash a name with every run of digits as one #: dump.100 and dump.200 have one stem. The
 * name is overwritten. */
uint64_t name_stem (char *name, size_t length);

#endif
