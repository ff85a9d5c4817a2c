/* What MPI-IO does: collective writes of one file. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 65536, TIMES = 8 };

int
main (int count, char **words)
{
	static char block[SIZE];
	char path[4096];
	MPI_File file;

	MPI_Init (&count, &words);
	snprintf (path, sizeof path, "%s/shared", words[1]);
	memset (block, 'm', SIZE);
	MPI_File_open (MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY,
		       MPI_INFO_NULL, &file);
	for (int i = 0; i < TIMES; i++)
		MPI_File_write_at_all (file, (MPI_Offset)i * SIZE, block, SIZE, MPI_BYTE,
				       MPI_STATUS_IGNORE);
	MPI_File_sync (file);
	MPI_File_close (&file);
	MPI_Finalize ();
	puts ("done");
	return 0;
}
