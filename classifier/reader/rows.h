/* The rows of a log under construction: records are found by file and owner, and added. */
#ifndef SLUICE_ROWS_H
#define SLUICE_ROWS_H

#include "darshan.h"
#include "reader.h"
#include "region.h"

struct rows {
	struct sluice_file_row *rows;
	size_t count, cleared, capacity;
	uint32_t *slots; /* open addressing; number of a row + 1, 0: free */
	size_t slot_count;
};

/* Make room for so many rows; more find theirs as they come. 0, or -1: out of memory. */
int rows_reserve (struct rows *rows, size_t count);

/* Return the row of a file and owner, which is made where there is none. NULL: out of
 * memory. */
struct sluice_file_row *rows_find (struct rows *rows, uint64_t id, int64_t owner);

/* Add a record to the row of its file and owner. 0, or -1: out of memory. */
int rows_add_posix (struct rows *rows, const struct darshan_posix *record, int64_t owner);
int rows_add_stdio (struct rows *rows, const struct darshan_stdio *record, int64_t owner);
int rows_add_mpiio (struct rows *rows, const struct darshan_mpiio *record, int64_t owner);

/* Free everything but the rows themselves. */
void rows_finish (struct rows *rows);
void rows_free (struct rows *rows);

/* The records of POSIX, MPI-IO and STDIO, checked and added up. */

/* Add the records of a log to the rows, and note in it what cannot be true. 0, or -1 and a
 * reason. */
int records_read (const struct sluice_library *library, const struct darshan_handle *handle,
		  struct region *region, struct rows *rows, struct sluice_log *log,
		  struct sluice_error *err);

#endif
