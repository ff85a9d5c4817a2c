/* What Slurm counts of licences, and its reservations of them. */
#ifndef SLUICE_COUNTS_H
#define SLUICE_COUNTS_H

/* 0, or -1 with Slurm's errno, and nothing was written. */
int licenses_write (void);
int reservations_write (void);

#endif
