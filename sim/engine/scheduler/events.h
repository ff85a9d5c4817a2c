/*
 * What will happen: a heap of (time, kind, sequence), so that ties are repeatable.
 */
#ifndef SLUICE_EVENTS_H
#define SLUICE_EVENTS_H

#include "base.h"

/* At one instant they happen in this order. */
enum event_kind {
	EVENT_END,	/* of a run, by itself or at its limit */
	EVENT_LEASE,	/* a lease begins or ends, or a policy's hold ends */
	EVENT_ELIGIBLE, /* a job may enter the queue */
	EVENT_PRIORITY, /* priorities are calculated anew */
	EVENT_BACKFILL	/* a backfill pass is due */
};

struct event {
	double time;
	uint64_t order;	 /* kind, then sequence */
	uint32_t what;	 /* a job, or a run */
	uint32_t serial; /* of the run that ends */
};

struct events {
	struct event *heap;
	uint32_t count;
	uint32_t capacity;
	uint64_t sequence;
};

void events_release (struct events *e);
int events_push (struct events *e, double time, enum event_kind kind, uint32_t what,
		 uint32_t serial);	    /* -1: no memory */
struct event events_pop (struct events *e); /* only where count > 0 */

static inline enum event_kind
event_kind (const struct event *event)
{
	return (enum event_kind) (event->order >> 56);
}

#endif
