#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

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

const struct opening queue_all
    = { .slots = QUEUE_EMPTY - 1, .later = QUEUE_EMPTY - 1, .horizon = INFINITY };

static int
resize (void **array, size_t bytes)
{
	void *grown = realloc (*array, bytes);
	if (grown)
		*array = grown;
	return grown ? 0 : -1;
}

static int
grow (struct queue *q)
{
	size_t n = q->capacity ? q->capacity * 2 : 4 * QUEUE_BLOCK;
	size_t blocks = n / QUEUE_BLOCK, groups = n / QUEUE_GROUP + 1;
	if (resize ((void **)&q->rank, n * sizeof *q->rank)
	    || resize ((void **)&q->job, n * sizeof *q->job)
	    || resize ((void **)&q->slots, n * sizeof *q->slots)
	    || resize ((void **)&q->limit, n * sizeof *q->limit)
	    || resize ((void **)&q->blocks, blocks * sizeof *q->blocks)
	    || resize ((void **)&q->groups, groups * sizeof *q->groups))
		return -1;
	q->capacity = (uint32_t)n;
	return 0;
}

void
queue_release (struct queue *q)
{
	free (q->rank);
	free (q->job);
	free (q->slots);
	free (q->limit);
	free (q->blocks);
	free (q->groups);
	*q = (struct queue){ 0 };
}

static void
clear (struct queue_summary *s)
{
	s->slots = QUEUE_EMPTY;
	for (int c = 0; c < QUEUE_CLASSES; c++)
		s->limit[c] = INFINITY;
}

static int
class_of (int32_t slots)
{
	int class = 31 - __builtin_clz ((uint32_t)slots);
	return class < QUEUE_CLASSES ? class : QUEUE_CLASSES - 1;
}

static void
include (struct queue_summary *s, int32_t slots, double limit)
{
	s->slots = slots < s->slots ? slots : s->slots;
	for (int c = class_of (slots); c < QUEUE_CLASSES; c++)
		s->limit[c] = limit < s->limit[c] ? limit : s->limit[c];
}

static void
measure_block (struct queue *q, uint32_t block)
{
	uint32_t from = block * QUEUE_BLOCK;
	uint32_t to = from + QUEUE_BLOCK < q->end ? from + QUEUE_BLOCK : q->end;
	clear (&q->blocks[block]);
	for (uint32_t i = from; i < to; i++)
		if (q->slots[i] != QUEUE_EMPTY)
			include (&q->blocks[block], q->slots[i], q->limit[i]);
}

static void
measure_group (struct queue *q, uint32_t group)
{
	struct queue_summary *all = &q->groups[group];
	clear (all);
	for (uint32_t i = group * QUEUE_BLOCK; i < (group + 1) * QUEUE_BLOCK; i++) {
		if (i * QUEUE_BLOCK >= q->end)
			break;
		const struct queue_summary *one = &q->blocks[i];
		all->slots = one->slots < all->slots ? one->slots : all->slots;
		for (int c = 0; c < QUEUE_CLASSES; c++)
			if (one->limit[c] < all->limit[c])
				all->limit[c] = one->limit[c];
	}
}

static void
measure_from (struct queue *q, uint32_t place)
{
	for (uint32_t block = place / QUEUE_BLOCK; block * QUEUE_BLOCK < q->end; block++)
		measure_block (q, block);
	for (uint32_t group = place / QUEUE_GROUP; group * QUEUE_GROUP < q->end; group++)
		measure_group (q, group);
}

/* A job was appended; its place may be the first of a block, or of a group. */
static void
measure_last (struct queue *q, uint32_t place)
{
	if (place % QUEUE_BLOCK == 0)
		clear (&q->blocks[place / QUEUE_BLOCK]);
	if (place % QUEUE_GROUP == 0)
		clear (&q->groups[place / QUEUE_GROUP]);
	include (&q->blocks[place / QUEUE_BLOCK], q->slots[place], q->limit[place]);
	include (&q->groups[place / QUEUE_GROUP], q->slots[place], q->limit[place]);
}

static void
copy_place (struct queue *q, uint32_t to, uint32_t from)
{
	q->rank[to] = q->rank[from];
	q->job[to] = q->job[from];
	q->slots[to] = q->slots[from];
	q->limit[to] = q->limit[from];
}

static void
close_gaps (struct queue *q)
{
	uint32_t to = 0;
	for (uint32_t i = q->start; i < q->end; i++)
		if (q->slots[i] != QUEUE_EMPTY)
			copy_place (q, to++, i);
	q->start = 0;
	q->end = to;
	measure_from (q, 0);
}

static int
goes_after (const struct queue *q, uint32_t place, uint64_t rank, uint32_t job)
{
	if (q->rank[place] != rank)
		return q->rank[place] > rank;
	return q->job[place] > job;
}

/* The place of the first job, there still or not, that goes after the given one. */
static uint32_t
place_of (const struct queue *q, uint64_t rank, uint32_t job)
{
	uint32_t low = q->start, high = q->end;
	if (low < high && !goes_after (q, high - 1, rank, job))
		return high; /* first come, first served: mostly so */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (goes_after (q, middle, rank, job))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

int64_t
queue_insert (struct queue *q, uint64_t rank, uint32_t job, int32_t slots, double limit)
{
	if (q->end == q->capacity) {
		if (q->waiting < q->capacity / 2)
			close_gaps (q);
		else if (grow (q))
			return -1;
	}
	uint32_t place = place_of (q, rank, job);
	size_t after = q->end - place;
	memmove (q->rank + place + 1, q->rank + place, after * sizeof *q->rank);
	memmove (q->job + place + 1, q->job + place, after * sizeof *q->job);
	memmove (q->slots + place + 1, q->slots + place, after * sizeof *q->slots);
	memmove (q->limit + place + 1, q->limit + place, after * sizeof *q->limit);
	q->rank[place] = rank;
	q->job[place] = job;
	q->slots[place] = slots;
	q->limit[place] = limit;
	q->end++;
	q->waiting++;
	if (after == 0)
		measure_last (q, place);
	else
		measure_from (q, place);
	return place;
}

void
queue_remove (struct queue *q, uint32_t place)
{
	q->slots[place] = QUEUE_EMPTY;
	q->limit[place] = INFINITY;
	q->waiting--;
	if (q->waiting == 0)
		q->start = q->end = 0;
	while (q->start < q->end && q->slots[q->start] == QUEUE_EMPTY)
		q->start++;
}

static int
passes (const struct opening *o, int32_t slots, double limit)
{
	return slots <= o->slots && (slots <= o->later || limit <= o->horizon);
}

static int
some_may_pass (const struct opening *o, const struct queue_summary *s)
{
	if (s->slots > o->slots)
		return 0;
	return s->slots <= o->later || s->limit[class_of (o->slots)] <= o->horizon;
}

/* The first place within [place, stop), all of one block, that passes; stop: none. */
static uint32_t
next_in_block (struct queue *q, uint32_t place, uint32_t stop,
	       const struct opening *opening)
{
	uint32_t block = place / QUEUE_BLOCK, from = place;
	if (!some_may_pass (opening, &q->blocks[block]))
		return stop;
	for (; place < stop; place++)
		if (passes (opening, q->slots[place], q->limit[place]))
			return place;
	if (from
	    == block * QUEUE_BLOCK) /* its smallest may have left since it was measured */
		measure_block (q, block);
	return stop;
}

uint32_t
queue_next (struct queue *q, uint32_t place, const struct opening *opening)
{
	uint32_t group_from = UINT32_MAX; /* the group that is walked through as a whole */
	if (place < q->start)
		place = q->start;
	while (place < q->end) {
		uint32_t group = place / QUEUE_GROUP;
		if (place % QUEUE_GROUP == 0) {
			group_from = group;
			if (!some_may_pass (opening, &q->groups[group])) {
				place += QUEUE_GROUP;
				continue;
			}
		}
		uint32_t stop = (place / QUEUE_BLOCK + 1) * QUEUE_BLOCK;
		if (stop > q->end)
			stop = q->end;
		place = next_in_block (q, place, stop, opening);
		if (place < stop)
			return place;
		if (group_from == group && (place == q->end || place % QUEUE_GROUP == 0))
			measure_group (q, group);
	}
	return q->end;
}

struct place {
	uint64_t rank;
	double limit;
	uint32_t job;
	int32_t slots;
};

static int
compare (const void *left, const void *right)
{
	const struct place *a = left, *b = right;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->job < b->job ? -1 : a->job > b->job;
}

int
queue_sort (struct queue *q)
{
	close_gaps (q);
	struct place *places = malloc ((q->end ? q->end : 1) * sizeof *places);
	if (!places)
		return -1;
	for (uint32_t i = 0; i < q->end; i++)
		places[i]
		    = (struct place){ q->rank[i], q->limit[i], q->job[i], q->slots[i] };
	qsort (places, q->end, sizeof *places, compare);
	for (uint32_t i = 0; i < q->end; i++) {
		q->rank[i] = places[i].rank;
		q->limit[i] = places[i].limit;
		q->job[i] = places[i].job;
		q->slots[i] = places[i].slots;
	}
	free (places);
	measure_from (q, 0);
	return 0;
}
