/*
 * The file that this plugin was loaded from, as it was then. Who overwrites it in
 * place changes the code that slurmctld runs; `sluice doctor` compares.
 */
#ifndef SLUICE_LIBRARY_H
#define SLUICE_LIBRARY_H

#include <sys/stat.h>

#include "config.h"

struct library {
	char path[SLUICE_PATH_SIZE]; /* empty: it cannot be told */
	struct stat loaded;
};

/* To be called when the plugin is loaded, and never under Slurm's locks. */
void library_identify (struct library *out);

#endif
