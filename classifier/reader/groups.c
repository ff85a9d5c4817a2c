#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 16 };

static size_t
slot_of (const struct groups *groups, uint64_t first, uint64_t second)
{
	uint64_t hash = (first ^ second * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
	size_t slot = (size_t)(hash >> 32) & (groups->slot_count - 1);
	for (; groups->slots[slot]; slot = (slot + 1) & (groups->slot_count - 1)) {
		const uint64_t *key = groups->all[groups->slots[slot] - 1].key;
		if (key[0] == first && key[1] == second)
			break;
	}
	return slot;
}

int
groups_reserve (struct groups *groups, uint32_t room)
{
	size_t slot_count = 2; /* a power of two */
	while (slot_count < 2 * (size_t)room)
		slot_count *= 2;
	struct group *all = realloc (groups->all, room * sizeof *all);
	if (!all)
		return -1;
	groups->all = all;
	groups->room = room;
	uint32_t *slots = calloc (slot_count, sizeof *slots);
	if (!slots)
		return -1;
	free (groups->slots);
	groups->slots = slots;
	groups->slot_count = slot_count;
	for (uint32_t i = 0; i < groups->count; i++)
		slots[slot_of (groups, all[i].key[0], all[i].key[1])] = i + 1;
	return 0;
}

struct group *
groups_find (struct groups *groups, uint64_t first, uint64_t second)
{
	if (groups->count == groups->room
	    && groups_reserve (groups, groups->room ? 2 * groups->room : FIRST_ROOM) < 0)
		return NULL;
	size_t slot = slot_of (groups, first, second);
	if (!groups->slots[slot]) {
		groups->all[groups->count++]
		    = (struct group){ .key = { first, second }, .least = INFINITY };
		groups->slots[slot] = groups->count;
	}
	return &groups->all[groups->slots[slot] - 1];
}

void
groups_free (struct groups *groups)
{
	free (groups->all);
	free (groups->slots);
	memset (groups, 0, sizeof *groups);
}
