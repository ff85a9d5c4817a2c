/*
 * Bytes that only a layer above the file system's calls knows: MPI-IO, HDF5, PnetCDF, DAOS.
 *
 * Usually POSIX or STDIO has them, too, and they count once, there. Where it does not - the
 * module was switched off, was full, or the data took another way - what the next layer
 * above says of the file counts: of all layers the lowest that knows of any bytes.
 */
#ifndef SLUICE_LAYERS_H
#define SLUICE_LAYERS_H

#include "rows.h"

/* Add to the rows of POSIX, STDIO and MPI-IO what other layers know besides, and note in
 * the log which modules cannot be read. 0, or -1 and a reason. */
int layers_read (const struct darshan_handle *handle, struct region *region,
		 struct rows *rows, struct sluice_log *log, struct sluice_error *err);

#endif
