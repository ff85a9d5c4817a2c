/* The smallest test runner: CHECK counts, main returns check_report (). */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static unsigned int checks_done, checks_failed;

#define CHECK(condition)                                                                   \
	do {                                                                               \
		checks_done++;                                                             \
		if (!(condition)) {                                                        \
			checks_failed++;                                                   \
			fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
		}                                                                          \
	} while (0)

static inline int
check_report (void)
{
	printf ("%u checks, %u failed\n", checks_done, checks_failed);
	return checks_failed > 0;
}

#endif
