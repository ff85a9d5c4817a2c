/*
 * Any bytes as a slurm.conf: reading it ends, and a token that is defined behind
 * them, on a line of its own, is found unless they define licences themselves.
 */
#include <stdlib.h>
#include <string.h>

#include "slurm_file.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	static const char own[] = "\nLicenses=sl0_stream:7\n";
	size_t length = size + sizeof own - 1;
	char *text = malloc (length);

	if (!text)
		return 0;
	memcpy (text, data, size);
	memcpy (text + size, own, sizeof own - 1);
	uint32_t alone = slurm_file_total (text, size, "sl0_stream");
	uint32_t both = slurm_file_total (text, length, "sl0_stream");
	int is_continued = size > 0 && data[size - 1] == '\\';
	if ((alone == 0 || alone == SLURM_FILE_SILENT) && both != alone && both != 7
	    && !is_continued)
		abort ();
	free (text);
	return 0;
}
