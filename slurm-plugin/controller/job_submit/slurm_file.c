#include "slurm_file.h"

#include <string.h>
#include <strings.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "container.h"
#include "tokens.h"

static int
same_time (struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

enum watch_result
watch_poll (struct watch *watch, const char *path)
{
	struct stat now;
	if (stat (path, &now) != 0) {
		watch_forget (watch);
		return WATCH_MISSING;
	}
	const struct stat *old = &watch->seen;
	int same = now.st_dev == old->st_dev && now.st_ino == old->st_ino
		   && now.st_size == old->st_size && same_time (now.st_mtim, old->st_mtim)
		   && same_time (now.st_ctim, old->st_ctim);
	watch->seen = now;
	return same ? WATCH_SAME : WATCH_CHANGED;
}

void
watch_forget (struct watch *watch)
{
	memset (watch, 0, sizeof *watch);
}

enum { MAX_BYTES = 4 << 20 };

/*
 * The text.
 */

/* A part of the text, without its end. */
struct part {
	const char *start;
	size_t length;
};

static int
is_blank (char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next line, without a comment. Continued lines (`\`) are one. */
static int
next_line (struct part *rest, struct part *line)
{
	if (rest->length == 0)
		return 0;
	const char *end = rest->start + rest->length, *p = rest->start;
	while ((p = memchr (p, '\n', (size_t)(end - p))) && p > rest->start
	       && p[-1] == '\\')
		p++;
	const char *stop = p ? p : end;
	line->start = rest->start;
	line->length = (size_t)(stop - rest->start);
	rest->start = p ? p + 1 : end;
	rest->length = (size_t)(end - rest->start);
	const char *comment = memchr (line->start, '#', line->length);
	if (comment)
		line->length = (size_t)(comment - line->start);
	while (line->length > 0 && is_blank (*line->start))
		line->start++, line->length--;
	return 1;
}

/* Whether the line begins with the word; what follows goes into rest. */
static int
begins_with (struct part line, const char *word, struct part *rest)
{
	size_t length = strlen (word);
	if (line.length < length || strncasecmp (line.start, word, length) != 0)
		return 0;
	rest->start = line.start + length;
	rest->length = line.length - length;
	return 1;
}

/* The number behind `name:`, 1 without one; 0 if this is another licence. */
static uint32_t
count_of (struct part item, const char *license)
{
	struct part rest;
	uint64_t count = 0;

	if (!begins_with (item, license, &rest)
	    || memcmp (item.start, license, strlen (license)) != 0)
		return 0;
	if (rest.length == 0 || is_blank (*rest.start) || *rest.start == '\\')
		return 1;
	if (*rest.start != ':' && *rest.start != '*')
		return 0;
	for (size_t i = 1; i < rest.length && rest.start[i] >= '0' && rest.start[i] <= '9';
	     i++)
		if (count < SLURM_FILE_SILENT)
			count = count * 10 + (uint64_t)(rest.start[i] - '0');
	return count < SLURM_FILE_SILENT ? (uint32_t)count : SLURM_FILE_SILENT - 1;
}

static int
is_between_items (char c)
{
	return c == ',' || c == ';' || c == '"' || c == '\\' || c == '\n' || is_blank (c);
}

static uint32_t
total_in_list (struct part list, const char *license)
{
	size_t at = 0;
	while (at < list.length) {
		while (at < list.length && is_between_items (list.start[at]))
			at++;
		struct part item = { list.start + at, 0 };
		while (at < list.length && !is_between_items (list.start[at]))
			at++, item.length++;
		uint32_t count = item.length ? count_of (item, license) : 0;
		if (count > 0)
			return count;
	}
	return 0;
}

uint32_t
slurm_file_total (const char *text, size_t size, const char *license)
{
	struct part rest = { text, size }, line, value;
	int has_include = 0;

	while (next_line (&rest, &line)) {
		has_include |= begins_with (line, "Include", &value);
		if (!begins_with (line, "Licenses", &value))
			continue;
		while (value.length > 0 && is_blank (*value.start))
			value.start++, value.length--;
		if (value.length > 0 && *value.start == '=') {
			value.start++, value.length--;
			return total_in_list (value, license);
		}
	}
	return has_include ? SLURM_FILE_SILENT : 0;
}

/*
 * The file.
 */

/* `scontrol reconfigure` may follow a change within milliseconds, so we are
 * woken; without inotify the file is polled with all others. */
static int
watch_directory_of (const char *path)
{
	char directory[SLUICE_PATH_SIZE];
	const char *slash = strrchr (path, '/');
	int fd = inotify_init1 (IN_CLOEXEC | IN_NONBLOCK);

	sluice_copy_text (directory, sizeof directory, path);
	directory[slash ? slash - path : 0] = '\0';
	if (fd >= 0
	    && inotify_add_watch (fd, directory, IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
		close (fd);
		fd = -1;
	}
	return fd;
}

void
slurm_file_init (struct slurm_file *file, const char *path)
{
	memset (file, 0, sizeof *file);
	sluice_copy_text (file->path, sizeof file->path, path);
	file->wake_fd = watch_directory_of (file->path);
}

void
slurm_file_destroy (struct slurm_file *file)
{
	sluice_free (file->text);
	if (file->wake_fd >= 0)
		close (file->wake_fd);
}

int
slurm_file_poll (struct slurm_file *file)
{
	char events[4096];
	void *text;
	size_t size;

	while (file->wake_fd >= 0 && read (file->wake_fd, events, sizeof events) > 0)
		;
	enum watch_result seen = watch_poll (&file->watch, file->path);
	if (seen == WATCH_SAME || (seen == WATCH_MISSING && !file->text))
		return 0;
	sluice_free (file->text);
	file->text = NULL;
	if (seen == WATCH_CHANGED
	    && sluice_read_trusted_file (file->path, geteuid (), MAX_BYTES, &text, &size,
					 NULL)
		   == 0) {
		file->text = text;
		file->size = size;
	}
	return 1;
}

void
slurm_file_totals (const struct slurm_file *file, const struct sluice_policy *policy,
		   uint32_t out[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES])
{
	char name[SLUICE_TOKEN_SIZE];
	uint32_t lanes = policy->lane_count ? policy->lane_count : 1;

	for (uint32_t klass = 0; klass < SLUICE_CLASS_COUNT; klass++)
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++) {
			out[klass][lane] = SLURM_FILE_SILENT;
			if (!file->text || klass == SLUICE_CLASS_NONE || lane >= lanes)
				continue;
			sluice_token_name (policy, lane, klass, name);
			out[klass][lane] = slurm_file_total (file->text, file->size, name);
		}
}
