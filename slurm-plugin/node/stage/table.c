#include "table.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST_SIZE = 256 };

void *
need (void *memory)
{
	if (!memory) {
		fprintf (stderr, "sluice-drain: no memory\n");
		exit (1);
	}
	return memory;
}

uint64_t
hash_text (const char *text)
{
	uint64_t hash = 14695981039346656037u;
	while (*text)
		hash = (hash ^ (unsigned char)*text++) * 1099511628211u;
	return hash_number (hash);
}

uint64_t
hash_number (uint64_t number)
{
	number = (number ^ number >> 33) * 0xff51afd7ed558ccdu;
	return number ^ number >> 33;
}

static void
grow (struct table *table)
{
	size_t size = table->size ? 2 * table->size : FIRST_SIZE;
	struct link **slots = need (calloc (size, sizeof (struct link *)));
	for (size_t i = 0; i < table->size; i++)
		for (struct link *link = table->slots[i], *next; link; link = next) {
			next = link->next;
			link->next = slots[link->hash % size];
			slots[link->hash % size] = link;
		}
	free (table->slots);
	table->slots = slots;
	table->size = size;
}

void
table_add (struct table *table, struct link *link, uint64_t hash)
{
	if (table->count >= table->size)
		grow (table);
	link->hash = hash;
	link->next = table->slots[hash % table->size];
	table->slots[hash % table->size] = link;
	table->count++;
}

void
table_remove (struct table *table, struct link *link)
{
	struct link **at = &table->slots[link->hash % table->size];
	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	table->count--;
}

static struct link *
with_hash (struct link *link, uint64_t hash)
{
	while (link && link->hash != hash)
		link = link->next;
	return link;
}

struct link *
table_first (const struct table *table, uint64_t hash)
{
	return table->size ? with_hash (table->slots[hash % table->size], hash) : NULL;
}

struct link *
table_next (const struct link *link)
{
	return with_hash (link->next, link->hash);
}
