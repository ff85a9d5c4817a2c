#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "as_user.h"

enum { GRACE_S = 2 }; /* beyond the command's timeout, for the file system */

/* X(NAME, number, what went wrong) */
#define STAGES(X)                                                                          \
	X (DONE, 0, "nothing")                                                             \
	X (FILE_SYSTEM, 1, "cannot look at the lane's path")                               \
	X (PARENT, 2, "cannot open the parent directory")                                  \
	X (ELSEWHERE, 3, "the directory would not be on the lane's file system")           \
	X (UNSAFE, 4, "everybody may exchange what lies in the parent directory")          \
	X (MAKE, 5, "cannot make the directory")                                           \
	X (CHANGED, 6, "the directory is not the one that was made")                       \
	X (COMMAND, 7, "the placement command failed")                                     \
	X (PREPARE, AS_USER_PREPARE, "cannot prepare a process")                           \
	X (IDENTITY, AS_USER_IDENTITY, "cannot become the user")                           \
	X (TIMEOUT, AS_USER_TIMEOUT, "it took too long")

#define STAGE_ENUM(name, number, text) STAGE_##name = number,
enum stage { STAGES (STAGE_ENUM) };

static const char *
stage_text (unsigned int stage)
{
#define STAGE_CASE(name, number, text)                                                     \
	case number:                                                                       \
		return text;
	switch (stage) {
		STAGES (STAGE_CASE)
	default:
		return "?";
	}
}

/*
 * The child, as the user.
 */

static struct outcome
outcome_of (enum stage stage, int error)
{
	return (struct outcome){ (unsigned char)stage, (unsigned char)error };
}

static int
open_directory (int parent, const char *name, struct stat *out)
{
	int fd = openat (parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fstat (fd, out) < 0) {
		close (fd);
		return -1;
	}
	return fd;
}

/* An earlier srun of the same allocation made it, or somebody else did. */
static struct outcome
reuse (int parent, const struct directory_request *request)
{
	struct stat found;
	int fd = open_directory (parent, request->name, &found);
	if (fd < 0)
		return outcome_of (STAGE_MAKE, EEXIST);
	close (fd);
	if (found.st_uid != request->uid)
		return outcome_of (STAGE_MAKE, EEXIST);
	return outcome_of (STAGE_DONE, 0);
}

static struct outcome
make_in (int parent, const struct directory_request *request)
{
	struct stat made;

	if (mkdirat (parent, request->name, 0700) < 0) {
		if (errno == EEXIST && request->may_exist)
			return reuse (parent, request);
		return outcome_of (STAGE_MAKE, errno);
	}
	/* Where a group may write in the parent, its members may have put something
	 * else in its place; they own no directory of the user's. */
	int fd = open_directory (parent, request->name, &made);
	if (fd < 0 || made.st_uid != request->uid || (made.st_mode & 0777) != 0700)
		return outcome_of (STAGE_CHANGED, 0);
	if (request->words[0]
	    && as_user_execute (fd, request->words, request->timeout_s) < 0) {
		unlinkat (parent, request->name, AT_REMOVEDIR);
		return outcome_of (STAGE_COMMAND, 0);
	}
	return outcome_of (STAGE_DONE, 0);
}

static struct outcome
work (const void *argument)
{
	const struct directory_request *request = argument;
	struct stat lane, parent;

	if (stat (request->file_system, &lane) < 0)
		return outcome_of (STAGE_FILE_SYSTEM, errno);
	int fd = open (request->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat (fd, &parent) < 0)
		return outcome_of (STAGE_PARENT, errno);
	if (parent.st_dev != lane.st_dev)
		return outcome_of (STAGE_ELSEWHERE, 0);
	if (parent.st_mode & S_IWOTH && !(parent.st_mode & S_ISVTX))
		return outcome_of (STAGE_UNSAFE, 0);
	return make_in (fd, request);
}

int
directory_make (const struct directory_request *request, char *why, size_t size)
{
	struct outcome outcome
	    = as_user (request->uid, work, request, request->timeout_s + GRACE_S);

	if (outcome.stage == STAGE_DONE)
		return 0;
	snprintf (why, size, "%s%s%s", stage_text (outcome.stage),
		  outcome.error ? ": " : "", outcome.error ? strerror (outcome.error) : "");
	return -1;
}
