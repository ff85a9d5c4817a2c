/* The report, as JSON lines on stdout. */
#ifndef SLUICE_PROBE_REPORT_H
#define SLUICE_PROBE_REPORT_H

#include "options.h"
#include "place.h"
#include "run.h"
#include "tally.h"

/* 0, or -1 when stdout does not take it. */
int report (const struct options *options, const struct place *places,
	    const struct tally *tally, const struct outcome *outcome);

#endif
