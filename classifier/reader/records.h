/* The records of POSIX, MPI-IO and STDIO, checked and added up. */
#ifndef SLUICE_RECORDS_H
#define SLUICE_RECORDS_H

#include "region.h"
#include "rows.h"

/* Add the records of a log of so many processes to the rows. 0, or -1 and a reason. */
int records_read (const struct sluice_library *library, const struct darshan_handle *handle,
		  struct region *region, int64_t nprocs, struct rows *rows,
		  struct sluice_error *err);

#endif
