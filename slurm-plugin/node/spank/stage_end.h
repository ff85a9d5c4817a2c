/* What job_epilog does with one staged job: the end of its drainer, and of its directory.
 */
#ifndef SLUICE_STAGE_END_H
#define SLUICE_STAGE_END_H

#include <sys/types.h>

#include "settings.h"

enum stage_result {
	STAGE_DRAINED, /* and its directory removed */
	STAGE_KEPT,    /* likewise drained; the user wanted that */
	STAGE_LEFT,    /* something is only on the node */
};

/* As root, with STAGE/JOBID open; takes at most the bound of stage= and some seconds. */
enum stage_result stage_finish (int job, const char *path, uid_t uid,
				const struct settings *settings);

#endif
