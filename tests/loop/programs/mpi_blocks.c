/* A program with MPI-IO, like IOR: each process writes its blocks of 1 MiB into one file,
 * in bursts with computing between.  Usage: mpi_blocks BURSTS MIB-A-BURST-AND-PROCESS
 * [collective] */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, PAUSE = 1500000 };

int
main (int argc, char **argv)
{
	int rank, size, collective = argc > 3;
	int bursts = argc > 1 ? atoi (argv[1]) : 1;
	int blocks = argc > 2 ? atoi (argv[2]) : 16;
	char *block = malloc (BLOCK);
	MPI_File file;

	MPI_Init (&argc, &argv);
	MPI_Comm_rank (MPI_COMM_WORLD, &rank);
	MPI_Comm_size (MPI_COMM_WORLD, &size);
	if (!block)
		MPI_Abort (MPI_COMM_WORLD, 1);
	memset (block, rank, BLOCK);
	if (MPI_File_open (MPI_COMM_WORLD, "blocks.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY,
			   MPI_INFO_NULL, &file)
	    != MPI_SUCCESS)
		MPI_Abort (MPI_COMM_WORLD, 1);
	for (int burst = 0; burst < bursts; burst++) {
		usleep (PAUSE);
		for (int i = 0; i < blocks; i++) {
			MPI_Offset at
			    = (((MPI_Offset)burst * blocks + i) * size + rank) * BLOCK;

			if (collective)
				MPI_File_write_at_all (file, at, block, BLOCK, MPI_BYTE,
						       MPI_STATUS_IGNORE);
			else
				MPI_File_write_at (file, at, block, BLOCK, MPI_BYTE,
						   MPI_STATUS_IGNORE);
		}
	}
	MPI_File_close (&file);
	MPI_Finalize ();
	free (block);
	return 0;
}
