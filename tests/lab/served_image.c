/*
 * served_image IMAGE LIMITS: one queue in front of a disk image, for reads and writes.
 *
 * The kernel's throttles give reads and writes a budget each, so that they do not disturb
 * each other. Here the image is a file system of one file, mounted over itself: each
 * request waits for those before it, whatever it does. LIMITS holds two uint64, bytes and
 * requests per second, 0 for no limit; they may change at any time. Ends when IMAGE is
 * unmounted. A loop device on it needs direct I/O, or requests are a page each.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 1 << 20, PAGES = LARGEST / 4096, HEADERS = 4096, IN_FLIGHT = 128 };
static const double most_credit = 0.05; /* s: what a late server may make up for */

static int image, channel;
static const volatile uint64_t *limits;
static char request[LARGEST + HEADERS], data[LARGEST];

static double
now (void)
{
	struct timespec t;
	clock_gettime (CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Return when the queue has served so many bytes. */
static void
serve (uint32_t bytes)
{
	static double free_at;
	double by_bytes = limits[0] ? bytes / (double)limits[0] : 0.0;
	double by_requests = limits[1] ? 1.0 / (double)limits[1] : 0.0;
	double begin = now () - most_credit;
	free_at = free_at > begin ? free_at : begin;
	free_at += by_bytes > by_requests ? by_bytes : by_requests;
	struct timespec until = { (time_t)free_at, 0 };
	until.tv_nsec = (long)((free_at - (double)until.tv_sec) * 1e9);
	clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void
answer (uint64_t unique, ssize_t result, const void *body, size_t bytes)
{
	struct fuse_out_header header = { .unique = unique };
	if (result < 0)
		header.error = -errno;
	header.len = (uint32_t)(sizeof header + (result < 0 ? 0 : bytes));
	struct iovec parts[] = { { &header, sizeof header }, { (void *)body, bytes } };
	if (writev (channel, parts, result < 0 ? 1 : 2) < 0 && errno != ENOENT)
		perror ("served_image");
}

static void
answer_attributes (uint64_t unique)
{
	struct stat is;
	int result = fstat (image, &is);
	struct fuse_attr_out out = { .attr_valid = 3600 };
	out.attr.ino = FUSE_ROOT_ID;
	out.attr.size = (uint64_t)is.st_size;
	out.attr.blocks = (uint64_t)is.st_blocks;
	out.attr.mode = is.st_mode;
	out.attr.nlink = 1;
	out.attr.blksize = 4096;
	answer (unique, result, &out, sizeof out);
}

static void
handle (const struct fuse_in_header *in, const void *body)
{
	const struct fuse_read_in *read = body;
	const struct fuse_write_in *write = body;
	const struct fuse_fallocate_in *hole = body;
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.flags
		= FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES,
		.max_background = IN_FLIGHT,
		.congestion_threshold = IN_FLIGHT,
		.max_write = LARGEST,
		.max_pages = PAGES,
		.time_gran = 1,
	};
	struct fuse_open_out open = { 0 };
	struct fuse_write_out written = { 0 };
	ssize_t moved;

	switch (in->opcode) {
	case FUSE_INIT:
		answer (in->unique, 0, &init, sizeof init);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		answer_attributes (in->unique);
		break;
	case FUSE_OPEN:
		answer (in->unique, 0, &open, sizeof open);
		break;
	case FUSE_READ:
		serve (read->size);
		moved = pread (image, data, read->size, (off_t)read->offset);
		answer (in->unique, moved, data, (size_t)moved);
		break;
	case FUSE_WRITE:
		serve (write->size);
		moved = pwrite (image, write + 1, write->size, (off_t)write->offset);
		written.size = (uint32_t)moved;
		answer (in->unique, moved, &written, sizeof written);
		break;
	case FUSE_FALLOCATE:
		moved = fallocate (image, (int)hole->mode, (off_t)hole->offset,
				   (off_t)hole->length);
		answer (in->unique, moved, NULL, 0);
		break;
	case FUSE_FSYNC: /* what was answered is in the image */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		answer (in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		errno = ENOSYS;
		answer (in->unique, -1, NULL, 0);
	}
}

int
main (int argc, char **argv)
{
	int shared = argc == 3 ? open (argv[2], O_RDONLY) : -1;
	image = argc == 3 ? open (argv[1], O_RDWR) : -1;
	channel = open ("/dev/fuse", O_RDWR);
	limits = mmap (NULL, 2 * sizeof *limits, PROT_READ, MAP_SHARED, shared, 0);
	char options[96];
	snprintf (options, sizeof options, "fd=%d,rootmode=100600,user_id=0,group_id=0",
		  channel);
	if (image < 0 || limits == MAP_FAILED
	    || mount ("sluice-lab", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		perror ("served_image");
		return 1;
	}
	/* as all that serve file systems: memory is not freed by writing to itself */
	prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	if (daemon (0, 0) < 0)
		return 1;
	ssize_t bytes;
	while ((bytes = read (channel, request, sizeof request)) > 0 || errno == EINTR
	       || errno == ENOENT)
		if (bytes > 0)
			handle ((const struct fuse_in_header *)request,
				request + sizeof (struct fuse_in_header));
	return 0;
}
