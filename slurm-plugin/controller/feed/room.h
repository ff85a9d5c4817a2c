/*
 * What Slurm counts of licences, its reservations of them, and the room of its partitions.
 */
#ifndef SLUICE_ROOM_H
#define SLUICE_ROOM_H

/* What Slurm counts of licences, and its reservations of them. */

/* 0, or -1 with Slurm's errno, and nothing was written. */
int licenses_write (void);
int reservations_write (void);

/* How much each partition could start now. */

/* 0, or -1 with Slurm's errno, and nothing was written. Where it is in doubt
 * whether a processor is free, it counts as free. */
int room_write (void);

#endif
