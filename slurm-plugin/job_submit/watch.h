/*
 * Has a file changed? By device, inode, size and times, so that a replaced, an
 * overwritten and a truncated file are all noticed without opening it.
 */
#ifndef SLUICE_WATCH_H
#define SLUICE_WATCH_H

#include <sys/stat.h>

struct watch {
	struct stat seen; /* all 0: no file */
};

enum watch_result { WATCH_SAME, WATCH_CHANGED, WATCH_MISSING };

/* Compare with the last poll and remember this one. WATCH_MISSING is said each
 * time that there is no file. */
enum watch_result watch_poll (struct watch *watch, const char *path);

/* The next poll finds the file changed. */
void watch_forget (struct watch *watch);

#endif
