/*
 * Say something to the administrator, never to the job: in slurmd's log (info),
 * and in srun only with -v, because everything else of its log is the user's
 * stderr.
 */
#ifndef SLUICE_REPORT_H
#define SLUICE_REPORT_H

void report (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

#endif
