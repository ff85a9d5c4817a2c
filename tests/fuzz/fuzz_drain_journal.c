/*
 * Any bytes as the journal of sluice-drain: no more of it is taken than there is, and no
 * path of it leads out of the two directories. Sums are put right, else nothing gets past
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"
#include "journal.h"

static void
put_sums_right (char *bytes, size_t size)
{
	struct record record;
	for (size_t at = 0; size - at >= sizeof record;) {
		memcpy (&record, bytes + at, sizeof record);
		size_t length = sizeof record + record.length;
		if (size - at < length)
			return;
		record.crc = crc32c (0, bytes + at + sizeof record.crc,
				     length - sizeof record.crc);
		memcpy (bytes + at, &record.crc, sizeof record.crc);
		at += length;
	}
}

/* As the drainer keeps what it reads. */
static void
take (void *data, enum record_type type, const char *path, const struct identity *is)
{
	struct names *names = data;
	if (type == RECORD_ROOTS || type == RECORD_NO_PARTS)
		return;
	if (path[0] == '/' || strncmp (path, "../", 3) == 0 || strcmp (path, "..") == 0
	    || strstr (path, "/../"))
		abort ();
	struct name *name = names_find (names, path);
	if (type == RECORD_PUT)
		names_put (names, path, is);
	else if (type == RECORD_DROP && name)
		names_drop (names, name);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	struct names names = { 0 };
	char *bytes = malloc (size + 1);
	if (!bytes)
		return 0;
	memcpy (bytes, data, size);
	if (journal_parse (bytes, size, take, &names) > size)
		abort ();
	put_sums_right (bytes, size);
	if (journal_parse (bytes, size, take, &names) > size)
		abort ();
	struct name **all = names_all (&names);
	for (struct name **name = all; *name; name++)
		names_drop (&names, *name);
	free (all);
	free (names.by_path.slots);
	free (names.by_inode.slots);
	free (bytes);
	return 0;
}
