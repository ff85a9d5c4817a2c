#include "state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int
grow (struct availability *a, uint32_t capacity)
{
	double *time = realloc (a->time, capacity * sizeof *time);
	if (time)
		a->time = time;
	int32_t *free = realloc (a->free, (size_t)capacity * a->columns * sizeof *free);
	if (free)
		a->free = free;
	if (!time || !free)
		return -1;
	a->capacity = capacity;
	return 0;
}

int
availability_init (struct availability *a, uint32_t columns, const int32_t *free)
{
	*a = (struct availability){ .columns = columns };
	if (grow (a, 64))
		return -1;
	a->time[0] = -INFINITY;
	memcpy (a->free, free, columns * sizeof *free);
	a->end = 1;
	return 0;
}

void
availability_release (struct availability *a)
{
	free (a->time);
	free (a->free);
	*a = (struct availability){ 0 };
}

static int32_t *
row (const struct availability *a, uint32_t i)
{
	return a->free + (size_t)i * a->columns;
}

int
availability_copy (struct availability *to, const struct availability *from)
{
	uint32_t count = from->end - from->first;
	if (to->capacity < count && grow (to, count * 2))
		return -1;
	memcpy (to->time, from->time + from->first, count * sizeof *to->time);
	memcpy (to->free, row (from, from->first),
		(size_t)count * from->columns * sizeof *to->free);
	to->first = 0;
	to->end = count;
	return 0;
}

void
availability_advance (struct availability *a, double now)
{
	while (a->first + 1 < a->end && a->time[a->first + 1] <= now)
		a->first++;
	if (a->time[a->first] < now)
		a->time[a->first] = now;
}

/* Move rows [from, to) by `by` rows. */
static void
move (struct availability *a, uint32_t from, uint32_t to, int by)
{
	uint32_t target = from + (uint32_t)by;
	memmove (a->time + target, a->time + from, (to - from) * sizeof *a->time);
	memmove (row (a, target), row (a, from),
		 (size_t)(to - from) * a->columns * sizeof *a->free);
}

/* Make a row begin at time and return it; time[first] counts as before everything. */
static uint32_t
split (struct availability *a, double time)
{
	if (time <= a->time[a->first])
		return a->first;
	const double *before
	    = a->time + a->first; /* the last row that may be before time */
	for (uint32_t count = a->end - a->first; count > 1; count -= count / 2)
		before += before[count / 2] < time ? count / 2
						   : 0; /* no branch to mispredict */
	uint32_t high = (uint32_t)(before - a->time) + 1;
	if (high < a->end && a->time[high] == time)
		return high;
	if (a->first > 0 && (a->end == a->capacity || high - a->first < a->end - high)) {
		move (a, a->first, high, -1);
		a->first--;
		high--;
	} else {
		move (a, high, a->end, 1);
		a->end++;
	}
	a->time[high] = time;
	memcpy (row (a, high), row (a, high - 1), a->columns * sizeof *a->free);
	return high;
}

static int
rows_are_equal (const struct availability *a, uint32_t i, uint32_t j)
{
	if (a->columns == 1) /* the usual machine: spare it a call */
		return a->free[i] == a->free[j];
	return memcmp (row (a, i), row (a, j), a->columns * sizeof *a->free) == 0;
}

/* Drop row i where it says the same as the one before it. */
static void
merge (struct availability *a, uint32_t i)
{
	if (i <= a->first || i >= a->end || !rows_are_equal (a, i, i - 1))
		return;
	if (i - a->first < a->end - i) {
		move (a, a->first, i, 1);
		a->first++;
	} else {
		move (a, i + 1, a->end, -1);
		a->end--;
	}
}

int
availability_change (struct availability *a, double from, double until,
		     const int32_t *amount, int32_t sign)
{
	if (until <= from)
		return 0;
	if (a->capacity - a->end + a->first < 2 && grow (a, a->capacity * 2))
		return -1;
	uint32_t begin = split (a, from);
	uint32_t shift = a->first;
	uint32_t end = until < INFINITY ? split (a, until) : a->end;
	begin += a->first - shift; /* the rows before `until` may have moved down */
	int32_t *cell = row (a, begin);
	if (a->columns == 1) {
		int32_t change = sign * amount[0];
		for (uint32_t i = begin; i < end; i++)
			*cell++ += change;
	} else {
		for (uint32_t i = begin; i < end; i++)
			for (uint32_t c = 0; c < a->columns; c++)
				*cell++ += sign * amount[c];
	}
	shift = a->first;
	merge (a, end);
	merge (a, begin + a->first - shift);
	return 0;
}

static int32_t
at_least_0 (int32_t n)
{
	return n > 0 ? n : 0;
}

/* Slots free in a row, in the groups of the mask. */
static int32_t
row_slots (const int32_t *cells, uint64_t groups)
{
	int32_t slots = 0;
	for (; groups; groups &= groups - 1)
		slots += at_least_0 (cells[__builtin_ctzll (groups)]);
	return slots;
}

/* Whether a row alone meets the demand. */
static int
row_serves (const int32_t *cells, const struct demand *d)
{
	for (uint32_t i = 0; i < d->need_count; i++)
		if (cells[d->first_license + d->needs[i].license] < d->needs[i].count)
			return 0;
	return row_slots (cells, d->groups) >= d->slots;
}

/* Slots of one group without licences: the first run of rows that is long enough. */
static double
earliest_in_group (const struct availability *a, double now, double latest,
		   const struct demand *d, int32_t *take)
{
	uint32_t group = (uint32_t)__builtin_ctzll (d->groups);
	const int32_t *cells = a->free + group;
	for (uint32_t i = a->first; i < a->end; i++) {
		double start = a->time[i] > now ? a->time[i] : now;
		if (start > latest)
			break;
		double stop = start + d->duration;
		uint32_t j = i;
		while (j < a->end && (j == i || a->time[j] < stop)
		       && cells[(size_t)j * a->columns] >= d->slots)
			j++;
		if (j == a->end || (j > i && a->time[j] >= stop)) {
			take[group] = d->slots;
			return start;
		}
		i = j;
	}
	return INFINITY;
}

/* What is free throughout the window that begins with row i, in least[group].
 * Returns UINT32_MAX where the window serves, else the last row that need not be
 * tried as a beginning. */
static uint32_t
window_fails_at (const struct availability *a, uint32_t i, double stop,
		 const struct demand *d, int32_t *least)
{
	for (uint64_t g = d->groups; g; g &= g - 1)
		least[__builtin_ctzll (g)] = INT32_MAX;
	for (uint32_t j = i; j < a->end && (j == i || a->time[j] < stop); j++) {
		const int32_t *cells = row (a, j);
		if (!row_serves (cells, d))
			return j;
		for (uint64_t g = d->groups; g; g &= g - 1) {
			int group = __builtin_ctzll (g);
			if (cells[group] < least[group])
				least[group] = cells[group];
		}
		if (row_slots (least, d->groups) < d->slots)
			return i; /* no row to blame: the groups lack slots in turn */
	}
	return UINT32_MAX;
}

double
availability_earliest (const struct availability *a, double now, double latest,
		       const struct demand *d, int32_t *take)
{
	memset (take, 0, a->columns * sizeof *take);
	if (!d->groups)
		return INFINITY;
	if (!d->need_count && !(d->groups & (d->groups - 1)))
		return earliest_in_group (a, now, latest, d, take);
	int32_t least[SLUICE_MAX_GROUPS];
	for (uint32_t i = a->first; i < a->end; i++) {
		double start = a->time[i] > now ? a->time[i] : now;
		if (start > latest)
			break;
		uint32_t failure = window_fails_at (a, i, start + d->duration, d, least);
		if (failure != UINT32_MAX) {
			i = failure;
			continue;
		}
		int32_t rest = d->slots;
		for (uint64_t g = d->groups; g && rest; g &= g - 1) {
			int group = __builtin_ctzll (g);
			int32_t part = at_least_0 (least[group]);
			take[group] = part < rest ? part : rest;
			rest -= take[group];
		}
		for (uint32_t n = 0; n < d->need_count; n++)
			take[d->first_license + d->needs[n].license] += d->needs[n].count;
		return start;
	}
	return INFINITY;
}

void
availability_least (const struct availability *a, double from, double until,
		    uint64_t groups, int32_t *least)
{
	uint32_t i = a->first;
	while (i + 1 < a->end && a->time[i + 1] <= from)
		i++;
	for (uint64_t g = groups; g; g &= g - 1)
		least[__builtin_ctzll (g)] = INT32_MAX;
	for (uint32_t j = i; j < a->end && (j == i || a->time[j] < until); j++)
		for (uint64_t g = groups; g; g &= g - 1) {
			int group = __builtin_ctzll (g);
			int32_t free = row (a, j)[group];
			if (free < least[group])
				least[group] = free;
		}
}

struct opening
availability_opening (const struct availability *a, double now, uint64_t groups)
{
	struct opening o = { .slots = row_slots (row (a, a->first), groups) };
	o.later = o.slots;
	o.horizon = INFINITY;
	for (uint32_t i = a->first + 1; i < a->end; i++) {
		int32_t slots = row_slots (row (a, i), groups);
		if (slots < o.slots) {
			o.horizon = a->time[i] - now;
			o.later = slots;
			break;
		}
	}
	return o;
}
