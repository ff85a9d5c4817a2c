/*
 * The plugin's threads inside slurmctld: they take none of its signals, wait
 * for nothing longer than a second, and end when told to.
 */
#ifndef SLUICE_THREAD_H
#define SLUICE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Start a thread with all signals blocked: they are slurmctld's. -1: none. */
int thread_start (pthread_t *thread, const char *name, void *(*run) (void *), void *data);

/* Wait for the thread's end, but not for ever: a file system may hang under it.
 * -1: it still runs, so nothing of its may be freed. */
int thread_join (pthread_t thread);

/* Sleep, no longer than until wake_fd (-1: none) is readable; 1 as soon as
 * stop_fd is, else 0. */
int thread_sleep (int stop_fd, int wake_fd, int milliseconds);

/* A clock for deadlines, which is never set. */
int64_t thread_milliseconds (void);

#endif
