/* Rendezvous of the processes of one program: memory that they share, and a barrier in it.
 * In a header, because the tests' writer is a single source file. */
#ifndef SLUICE_PROBE_MEETING_H
#define SLUICE_PROBE_MEETING_H

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

/* Zeroed memory of a process and of those that it will fork, which begins with a
 * barrier for so many of them; NULL with errno when there is none. */
static inline void *
arrange_meeting (size_t size, unsigned processes)
{
	pthread_barrierattr_t shared;
	void *meeting
	    = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (meeting == MAP_FAILED)
		return NULL;
	pthread_barrierattr_init (&shared);
	pthread_barrierattr_setpshared (&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init (meeting, &shared, processes);
	pthread_barrierattr_destroy (&shared);
	return meeting;
}

#endif
