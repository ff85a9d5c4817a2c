#include "events.h"

#include <stdlib.h>

enum {
	CHILDREN = 4 /* flatter than two: fewer cache lines on the way down */
};

void
events_release (struct events *e)
{
	free (e->heap);
	*e = (struct events){ 0 };
}

static int
is_before (const struct event *a, const struct event *b)
{
	return a->time < b->time || (a->time == b->time && a->order < b->order);
}

int
events_push (struct events *e, double time, enum event_kind kind, uint32_t what,
	     uint32_t serial)
{
	if (e->count == e->capacity) {
		uint32_t capacity = e->capacity ? e->capacity * 2 : 256;
		struct event *heap = realloc (e->heap, capacity * sizeof *heap);
		if (!heap)
			return -1;
		e->heap = heap;
		e->capacity = capacity;
	}
	struct event event = { time, (uint64_t)kind << 56 | e->sequence++, what, serial };
	uint32_t hole = e->count++;
	while (hole > 0) {
		uint32_t parent = (hole - 1) / CHILDREN;
		if (!is_before (&event, &e->heap[parent]))
			break;
		e->heap[hole] = e->heap[parent];
		hole = parent;
	}
	e->heap[hole] = event;
	return 0;
}

static uint32_t
first_child (const struct events *e, uint32_t parent)
{
	uint32_t child = parent * CHILDREN + 1;
	uint32_t stop = child + CHILDREN < e->count ? child + CHILDREN : e->count;
	uint32_t first = child;
	while (++child < stop)
		if (is_before (&e->heap[child], &e->heap[first]))
			first = child;
	return first;
}

struct event
events_pop (struct events *e)
{
	struct event top = e->heap[0];
	struct event last = e->heap[--e->count];
	uint32_t hole = 0;
	while (hole * CHILDREN + 1 < e->count) {
		uint32_t child = first_child (e, hole);
		if (!is_before (&e->heap[child], &last))
			break;
		e->heap[hole] = e->heap[child];
		hole = child;
	}
	e->heap[hole] = last;
	return top;
}
