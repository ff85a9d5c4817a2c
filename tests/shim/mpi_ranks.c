/*
 * What MPI-IO does with several ranks: a collective checkpoint, a strided view that each
 * rank writes for itself (ROMIO locks what it sieves), and a shared file pointer.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 4096, TIMES = 16 };

static char block[BLOCK];

static MPI_File
opened (const char *place, const char *name)
{
	char path[4096];
	MPI_File file;

	snprintf (path, sizeof path, "%s/%s", place, name);
	MPI_File_open (MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
		       &file);
	return file;
}

static void
write_checkpoint (const char *place, int rank, int ranks)
{
	MPI_File file = opened (place, "checkpoint");

	for (int i = 0; i < TIMES; i++)
		MPI_File_write_at_all (file, (MPI_Offset)(i * ranks + rank) * BLOCK, block,
				       BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
	MPI_File_sync (file);
	MPI_File_close (&file);
}

static void
write_strided (const char *place, int rank, int ranks)
{
	MPI_File file = opened (place, "strided");
	MPI_Datatype view;

	MPI_Type_vector (TIMES, 64, 64 * ranks, MPI_BYTE, &view);
	MPI_Type_commit (&view);
	MPI_File_set_view (file, (MPI_Offset)rank * 64, MPI_BYTE, view, "native",
			   MPI_INFO_NULL);
	MPI_File_write (file, block, 64 * TIMES, MPI_BYTE, MPI_STATUS_IGNORE);
	MPI_File_close (&file);
	MPI_Type_free (&view);
}

/* In the order of ranks, so that its bytes are known. */
static void
write_shared (const char *place)
{
	MPI_File file = opened (place, "shared");

	MPI_File_write_ordered (file, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
	MPI_File_close (&file);
}

int
main (int count, char **words)
{
	int rank, ranks;

	MPI_Init (&count, &words);
	MPI_Comm_rank (MPI_COMM_WORLD, &rank);
	MPI_Comm_size (MPI_COMM_WORLD, &ranks);
	memset (block, 'a' + rank, BLOCK);
	write_checkpoint (words[1], rank, ranks);
	write_strided (words[1], rank, ranks);
	write_shared (words[1]);
	MPI_Finalize ();
	if (rank == 0)
		puts ("done");
	return 0;
}
