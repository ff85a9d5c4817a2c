#include "queue.h"

#include <stdlib.h>
#include <string.h>

static void
put (struct list *list, struct item *item)
{
	item->next = NULL;
	item->previous = list->last;
	*(list->last ? &list->last->next : &list->first) = item;
	list->last = item;
}

static void
cut (struct list *list, struct item *item)
{
	*(item->previous ? &item->previous->next : &list->first) = item->next;
	*(item->next ? &item->next->previous : &list->last) = item->previous;
}

static struct list *
list_of (struct queue *queue, const struct item *item)
{
	return item->is_late ? &queue->late : &queue->ready;
}

static struct item *
find (const struct queue *queue, const char *path)
{
	struct link *link = table_first (&queue->by_path, hash_text (path));
	for (; link; link = table_next (link)) {
		struct item *item = CONTAINER (link, struct item, by_path);
		if (strcmp (item->path, path) == 0)
			return item;
	}
	return NULL;
}

void
queue_add (struct queue *queue, const char *path, int64_t due, int is_forced)
{
	struct item *item = find (queue, path);
	if (item) {
		cut (list_of (queue, item), item);
	} else {
		item = need (calloc (1, sizeof *item + strlen (path) + 1));
		strcpy (item->path, path);
		table_add (&queue->by_path, &item->by_path, hash_text (path));
	}
	item->due = due;
	item->is_late = 0;
	item->is_forced |= is_forced;
	put (&queue->ready, item);
}

struct item *
queue_take (struct queue *queue, int64_t now)
{
	struct item *item = queue->ready.first;
	if (!item || item->due > now)
		return NULL;
	cut (&queue->ready, item);
	table_remove (&queue->by_path, &item->by_path);
	return item;
}

/* An event may have brought the path back meanwhile: that one goes first then. */
void
queue_wait (struct queue *queue, struct item *item, int64_t due, int reason)
{
	struct item *again = find (queue, item->path);
	if (again) {
		again->is_forced |= item->is_forced;
		free (item);
		return;
	}
	item->due = due;
	item->reason = reason;
	item->tries++;
	item->is_late = 1;
	table_add (&queue->by_path, &item->by_path, hash_text (item->path));
	put (&queue->late, item);
}

void
queue_wake (struct queue *queue, int64_t now)
{
	for (struct item *item = queue->late.first, *next; item; item = next) {
		next = item->next;
		if (item->due > now)
			continue;
		cut (&queue->late, item);
		item->is_late = 0;
		put (&queue->ready, item);
	}
}

int64_t
queue_due (const struct queue *queue)
{
	int64_t due = queue->ready.first ? queue->ready.first->due : INT64_MAX;
	for (const struct item *item = queue->late.first; item; item = item->next)
		if (item->due < due)
			due = item->due;
	return due;
}
