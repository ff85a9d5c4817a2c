/* Files that a process writes one after the other. Files written at the same time are
 * streams side by side and count as one. */
#include "measure.h"

#include <math.h>
#include <stdlib.h>

static const double comparable
    = 4; /* times: a file's series are those at least this fraction of its size */

struct piece {
	double size;
	int64_t owner;
	int64_t number; /* of the row */
};

/* By process, its largest file first. */
static int
compare (const void *a, const void *b)
{
	const struct piece *first = a, *second = b;
	if (first->owner != second->owner)
		return first->owner < second->owner ? -1 : 1;
	if (first->size != second->size)
		return first->size > second->size ? -1 : 1;
	return first->number < second->number ? -1 : 1;
}

/* So many files in a time in which they were written for `busy` seconds. */
static double
length_of (double count, double busy, double lasted)
{
	return count / smaller (larger (ratio (busy, lasted), 1), count);
}

/* Processes one behind the other: their seconds are added up in one sum, and their times
 * are so far apart. (Each alone would do, but for the last bits of profiles that a history
 * holds.) */
struct row_of_processes {
	double step, shift, busy;
};

/* The series of each file of a process: those that are not much smaller. */
static void
measure_process (struct run *run, const struct piece *pieces, size_t count,
		 struct row_of_processes *all)
{
	double begin = INFINITY, end = 0, before = all->busy;
	size_t until = 0;
	for (size_t i = 0; i < count; i++) {
		for (; until < count && comparable * pieces[until].size >= pieces[i].size;
		     until++) {
			const struct sluice_file_row *row
			    = &run->log->rows[pieces[until].number];
			begin = smaller (begin, row->write_start - all->shift);
			end = larger (end, row->write_end + all->shift);
			all->busy += row->write_end - row->write_start;
		}
		run->uses[pieces[i].number].successive
		    = length_of ((double)until, all->busy - before,
				 (end - all->shift) - (begin + all->shift));
	}
	all->shift += all->step;
}

static size_t
pieces_of (const struct run *run, struct piece *pieces, double *last)
{
	size_t count = 0;
	EACH (run, i) {
		const struct sluice_file_row *row = &run->log->rows[i];
		if (!run->uses[i].wrote)
			continue;
		pieces[count++]
		    = (struct piece){ larger (run->uses[i].size, 1), row->owner, i };
		*last = larger (*last, row->write_end);
	}
	qsort (pieces, count, sizeof *pieces, compare);
	return count;
}

static int
find_by_size (struct run *run)
{
	struct piece *pieces = malloc ((size_t)run->log->row_count * sizeof *pieces);
	double last = 1;
	if (!pieces)
		return -1;
	size_t count = pieces_of (run, pieces, &last), end;
	struct row_of_processes all = { .step = 2 * last };
	for (size_t start = 0; start < count; start = end) {
		for (end = start + 1;
		     end < count && pieces[end].owner == pieces[start].owner; end++)
			;
		measure_process (run, pieces + start, end - start, &all);
	}
	free (pieces);
	return 0;
}

static struct group *
namesakes (struct run *run, struct groups *groups, int64_t number)
{
	const struct sluice_file_row *row = &run->log->rows[number];
	return groups_find (groups, (uint64_t)row->owner, row->stem);
}

/* Those of its process with the same stem. */
static int
find_by_name (struct run *run)
{
	struct groups groups = { 0 };
	EACH (run, i) {
		const struct sluice_file_row *row = &run->log->rows[i];
		if (run->uses[i].named == 0)
			continue;
		struct group *group = namesakes (run, &groups, i);
		if (!group) {
			groups_free (&groups);
			return -1;
		}
		group->count++;
		group->least = smaller (group->least, row->write_start);
		group->most = larger (group->most, row->write_end);
		group->sum += row->write_end - row->write_start;
	}
	EACH (run, i)
		if (run->uses[i].named > 0) {
			const struct group *group = namesakes (run, &groups, i);
			run->uses[i].named = length_of (group->count, group->sum,
							group->most - group->least);
		}
	groups_free (&groups);
	return 0;
}

static int
writes_several (const struct run *run)
{
	for (uint32_t i = 0; i < run->processes.count; i++)
		if (run->processes.all[i].count > 1)
			return 1;
	return 0;
}

int
find_series (struct run *run)
{
	EACH (run, i) {
		struct use *use = &run->uses[i];
		use->successive = use->wrote;
		use->named = use->wrote && run->log->rows[i].stem != 0;
	}
	if (!writes_several (run))
		return 0;
	return find_by_size (run) < 0 || find_by_name (run) < 0 ? -1 : 0;
}
