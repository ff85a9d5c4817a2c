/*
 * Decision records on their way to sluiced: a ring of fixed size in memory.
 *
 * job_submit puts in, the socket thread takes out. Records stay until they are
 * acknowledged; when the ring is full, new ones are dropped and counted, so
 * a submission never waits for sluiced. Memory is reserved once, off the submit path.
 *
 * A record keeps its place, counted from 0 and never used twice, until it is
 * acknowledged. Records that an earlier slurmctld could not hand over are put in
 * too (spool.h), under the boot and number that they had there.
 */
#ifndef SLUICE_RING_H
#define SLUICE_RING_H

#include <pthread.h>
#include <stdatomic.h>

#include "record.h"

enum {
	/* Submissions of ten minutes at a few a second, while sluiced restarts: 9 MB. */
	RING_RECORDS = 4096,
};

struct ring {
	pthread_mutex_t lock;
	/* held while records are acknowledged or copied, and never by job_submit */
	pthread_mutex_t reader_lock;
	struct sluice_record *slots;
	uint32_t size;	  /* slots; 0: nothing reserved yet */
	uint64_t written; /* records put in, since the start */
	uint64_t removed; /* of these, acknowledged */
	uint64_t last;	  /* number of the latest record, dropped or not */
	uint64_t dropped; /* here or in an earlier slurmctld: the ring was full */
	uint64_t lost;	  /* of an earlier slurmctld: could not be handed over */

	/* an eventfd; ring_push makes it readable once each time that it is awaited */
	int pushed_fd;
	_Atomic int is_awaited;
};

struct ring_state {
	uint32_t size;
	uint32_t used;
	uint64_t written;
	uint64_t removed;
	uint64_t last;
	uint64_t dropped;
	uint64_t lost;
};

void ring_init (struct ring *ring);
void ring_destroy (struct ring *ring);

/* Reserve memory for RING_RECORDS, once: later calls change nothing. -1: no
 * memory; every record is dropped then. */
int ring_reserve (struct ring *ring);

/* A record will be pushed soon: fetch the memory that it will go to, which no core has
 * touched since the ring was there the last time, meanwhile. */
void ring_expect (struct ring *ring);

/* Number the record and put it in, or drop it. */
void ring_push (struct ring *ring, struct sluice_record *record);

/* Put in a record of an earlier slurmctld as it is; without room it is lost. */
void ring_inherit (struct ring *ring, const struct sluice_record *record);
/* What an earlier slurmctld had dropped and lost counts on. */
void ring_add_losses (struct ring *ring, uint64_t dropped, uint64_t lost);

/* Forget the oldest records as far as they are of this boot and up to this number. */
void ring_acknowledge (struct ring *ring, uint64_t boot, uint64_t number);

/* How many of the oldest records, at most max, are of one boot, and of which; without
 * records boot stays. */
uint32_t ring_of_one_boot (struct ring *ring, uint32_t max, uint64_t *boot);

/* At most max of the oldest records, from the skip-th on, that lie side by
 * side. They stay as they are until they are acknowledged, so one reader may
 * use them without the lock. */
const struct sluice_record *ring_oldest (struct ring *ring, uint32_t skip, uint32_t max,
					 uint32_t *count);

/* Copy the record at a place below ring_state's written, alongside another reader and
 * without the lock that job_submit takes; 0, or -1 when it is acknowledged. */
int ring_copy (struct ring *ring, uint64_t place, struct sluice_record *out);

struct ring_state ring_state (struct ring *ring);

#endif
