/*
 * Chained hash tables of what contains a link. A table grows with what is in it; where
 * there is no memory, the program ends: what it has not drained stays where it is.
 */
#ifndef SLUICE_STAGE_TABLE_H
#define SLUICE_STAGE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct link {
	struct link *next;
	uint64_t hash;
};

struct table {
	struct link **slots;
	size_t size, count;
};

#define CONTAINER(link, type, member)                                                      \
	((type *)(void *)((char *)(link)-offsetof (type, member)))

void table_add (struct table *table, struct link *link, uint64_t hash);
void table_remove (struct table *table, struct link *link);
/* Those with this hash, one after the other; NULL: no more. */
struct link *table_first (const struct table *table, uint64_t hash);
struct link *table_next (const struct link *link);

uint64_t hash_text (const char *text);
uint64_t hash_number (uint64_t number);

/* What malloc gave, or the end of the program. */
void *need (void *memory);

#endif
