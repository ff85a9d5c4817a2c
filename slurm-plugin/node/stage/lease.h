/*
 * A read lease on the file that is copied: the kernel grants it only while no process has
 * the file open, or mapped, for writing, and tells when one is about to. A thread gives it
 * back at once then, also while the copy waits for the destination, so no writer waits.
 */
#ifndef SLUICE_STAGE_LEASE_H
#define SLUICE_STAGE_LEASE_H

/* Blocks SIGIO and starts the thread; -1 with errno. Before all others. */
int lease_start (void);
enum lease_result { LEASE_GRANTED, LEASE_REFUSED, LEASE_UNKNOWN };
/* UNKNOWN: this file system, or the file's owner, has no leases. One at a time. */
enum lease_result lease_take (int fd);
/* Whether a writer came since lease_take. */
int lease_is_broken (void);
void lease_drop (void);

#endif
