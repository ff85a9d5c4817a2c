#include "backend.h"

#include <string.h>

/* mfssetsclass(1): files made below inherit the storage class. */
static void
moosefs_words (const struct lane *lane, const char *words[])
{
	words[0] = lane->placement;
	words[1] = ".";
}

/* lfs-setstripe(1): files made below inherit the layout. No pool's name starts
 * with a digit here: then it is a list of OST indices. The stripe count stays
 * the file system's own. */
static void
lustre_words (const struct lane *lane, const char *words[])
{
	int is_list = lane->placement[0] >= '0' && lane->placement[0] <= '9';
	words[0] = "setstripe";
	words[1] = is_list ? "-o" : "-p";
	words[2] = lane->placement;
	words[3] = ".";
}

static const struct backend backends[] = {
	{ "directory", NULL, NULL },
	{ "moosefs", "/usr/bin/mfssetsclass", moosefs_words },
	{ "lustre", "/usr/bin/lfs", lustre_words },
};

const struct backend *
backend_named (const char *name)
{
	for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
		if (strcmp (backends[i].name, name) == 0)
			return &backends[i];
	return NULL;
}

void
backend_command (const struct settings *settings, const struct lane *lane,
		 const char *words[BACKEND_WORDS])
{
	memset (words, 0, BACKEND_WORDS * sizeof *words);
	if (!settings->backend->command)
		return;
	words[0] = settings->command;
	settings->backend->words (lane, words + 1);
}
