#include "processes.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
processes_read (int pid, const char *file, char *text, size_t size)
{
	char path[64];
	snprintf (path, sizeof path, "/proc/%d/%s", pid, file);
	int fd = open (path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read (fd, text, size - 1);
	if (fd >= 0)
		close (fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? 0 : -1;
}

/* ---- processes in containers ---- */

/* The last number of the line NSpid, if there are several. */
static uint32_t
inner_pid (const char *status)
{
	const char *line = strstr (status, "\nNSpid:");
	unsigned long found = 0;
	int numbers = 0;
	for (line = line ? line + 7 : NULL; line && *line && *line != '\n'; line++)
		if (isdigit ((unsigned char)*line)) {
			char *end;
			found = strtoul (line, &end, 10);
			numbers++;
			line = end - 1;
		}
	return numbers > 1 ? (uint32_t)found : 0;
}

static int
append (struct processes_list *list, const struct processes_inner *process)
{
	if (list->count == list->room) {
		uint32_t room = list->room ? 2 * list->room : 64;
		void *grown = realloc (list->all, room * sizeof list->all[0]);
		if (!grown)
			return -1;
		list->all = grown;
		list->room = room;
	}
	list->all[list->count++] = *process;
	return 0;
}

/* 0, or -1 without memory. */
static int
note_process (struct processes_list *list, int pid)
{
	char text[4096];
	if (processes_read (pid, "status", text, sizeof text) < 0)
		return 0;
	const char *uid = strstr (text, "\nUid:");
	struct processes_inner process = { .pid = inner_pid (text), .host = pid };
	if (!uid || !process.pid)
		return 0;
	process.uid = (uint32_t)strtoul (uid + 5, NULL, 10);
	return append (list, &process);
}

static int
compare (const void *a, const void *b)
{
	const struct processes_inner *x = a, *y = b;
	if (x->uid != y->uid)
		return x->uid < y->uid ? -1 : 1;
	return x->pid == y->pid ? 0 : x->pid < y->pid ? -1 : 1;
}

static void
complete (struct processes *processes)
{
	struct processes_list before = processes->listed;
	if (processes->draft.count)
		qsort (processes->draft.all, processes->draft.count,
		       sizeof processes->draft.all[0], compare);
	processes->listed = processes->draft;
	processes->draft = before;
	processes->done = processes->begun;
}

static void
begin (struct processes *processes)
{
	processes->draft.count = 0;
	processes->proc = opendir ("/proc");
	processes->begun += processes->proc != NULL;
}

void
processes_read_on (struct processes *processes)
{
	struct dirent *entry = NULL;
	int failed = 0;
	if (!processes->proc && processes->wanted > processes->begun)
		begin (processes);
	if (!processes->proc)
		return;
	for (int i = 0; i < PROCESSES_PART && !failed; i++) {
		if (!(entry = readdir (processes->proc)))
			break;
		int pid = atoi (entry->d_name);
		failed = pid > 0 && note_process (&processes->draft, pid) < 0;
	}
	if (entry && !failed)
		return;
	closedir (processes->proc);
	processes->proc = NULL;
	if (failed)
		processes->begun--; /* it is begun again */
	else
		complete (processes);
}

uint64_t
processes_want (struct processes *processes)
{
	return processes->wanted = processes->begun + 1;
}

uint32_t
processes_find (const struct processes *processes, uint32_t uid, uint32_t pid,
		const struct processes_inner **first)
{
	const struct processes_inner wanted = { uid, pid, 0 };
	const struct processes_list *list = &processes->listed;
	uint32_t from = 0, to = list->count, end;
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;
		if (compare (&list->all[middle], &wanted) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	for (end = from; end < list->count && compare (&list->all[end], &wanted) == 0;)
		end++;
	*first = list->all + from;
	return end - from;
}

/* ---- locks ---- */

static void
read_locks (struct processes *processes)
{
	FILE *locks = fopen ("/proc/locks", "re");
	char line[256];
	int32_t pid;
	processes->lock_count = 0;
	processes->is_owner_unknown = 0;
	while (locks && !processes->is_owner_unknown && fgets (line, sizeof line, locks)) {
		if (sscanf (line, "%*s %*s %*s %*s %d", &pid) != 1)
			continue;
		if (pid <= 0 || processes->lock_count == PROCESSES_MOST_LOCKS)
			processes->is_owner_unknown = 1;
		else
			processes->locks[processes->lock_count++] = pid;
	}
	if (locks)
		fclose (locks);
	processes->are_locks_read = 1;
}

void
processes_forget_locks (struct processes *processes)
{
	processes->are_locks_read = 0;
}

int
processes_may_have_left_lock (struct processes *processes, int32_t pid)
{
	if (!processes->are_locks_read)
		read_locks (processes);
	for (uint32_t i = 0; i < processes->lock_count; i++)
		if (processes->locks[i] == pid)
			return 1;
	return processes->is_owner_unknown;
}
