/* The calendar of the discrete-event storage model: a heap by time, then by number. */
#include <stdlib.h>

#include "discrete_event_state.h"

static int
is_earlier (const struct event *a, const struct event *b)
{
	return a->time < b->time || (!(b->time < a->time) && a->number < b->number);
}

static int
make_room (struct simulation *s)
{
	if (s->event_count < s->event_room)
		return 0;
	uint32_t room = s->event_room ? 2 * s->event_room : 4096;
	struct event *events = realloc (s->events, room * sizeof *events);
	if (!events) {
		s->out_of_memory = 1;
		return -1;
	}
	s->events = events;
	s->event_room = room;
	return 0;
}

void
rq_schedule (struct simulation *s, double time, enum event_kind kind, uint32_t index)
{
	if (make_room (s) < 0)
		return;
	struct event event = { time, s->event_number++, kind, index };
	uint32_t at = s->event_count++;
	for (; at && is_earlier (&event, &s->events[(at - 1) / 2]); at = (at - 1) / 2)
		s->events[at] = s->events[(at - 1) / 2];
	s->events[at] = event;
}

int
rq_next_event (struct simulation *s, struct event *out)
{
	if (!s->event_count)
		return 0;
	*out = s->events[0];
	struct event last = s->events[--s->event_count];
	uint32_t at = 0;
	for (uint32_t child; (child = 2 * at + 1) < s->event_count; at = child) {
		if (child + 1 < s->event_count
		    && is_earlier (&s->events[child + 1], &s->events[child]))
			child++;
		if (!is_earlier (&s->events[child], &last))
			break;
		s->events[at] = s->events[child];
	}
	s->events[at] = last;
	return 1;
}
