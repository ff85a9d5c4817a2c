/* Changes of jobs' licences, each on condition that the job is as sluiced saw it. */
#ifndef SLUICE_CHANGES_H
#define SLUICE_CHANGES_H

#include <stddef.h>

/* Carry out the changes in a request's payload, one after the other, and write a
 * frame of what came of each as soon as it is known. Ends the process where the
 * payload is none. */
void changes_make (const unsigned char *payload, size_t size);

#endif
