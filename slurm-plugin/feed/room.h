/* How much each partition could start now. */
#ifndef SLUICE_ROOM_H
#define SLUICE_ROOM_H

/* 0, or -1 with Slurm's errno, and nothing was written. Where it is in doubt
 * whether a processor is free, it counts as free. */
int room_write (void);

#endif
