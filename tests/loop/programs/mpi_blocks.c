/* A program with MPI-IO, like IOR: each process writes its blocks of 1 MiB into one file,
 * in bursts with computing before each.  Usage: mpi_blocks BURSTS MIB-A-BURST-AND-PROCESS
 * [collective|independent [SECONDS-OF-COMPUTING [AT]]]; AT is when the first burst begins,
 * in seconds since the epoch. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

static void
compute (double seconds)
{
	if (seconds > 0.0)
		usleep ((useconds_t)(seconds * 1e6));
}

static double
now (void)
{
	struct timeval time;
	gettimeofday (&time, NULL);
	return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

int
main (int argc, char **argv)
{
	int rank, size, collective = argc > 3 && strcmp (argv[3], "collective") == 0;
	double pause = argc > 4 ? atof (argv[4]) : 1.5;
	double at = argc > 5 ? atof (argv[5]) : 0.0;
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
		compute (burst == 0 && at > 0.0 ? at - now () : pause);
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
