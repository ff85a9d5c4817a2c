/*
 * damage_test BUNDLE SNAPSHOT STRIDE: every STRIDE-th truncation of both files and
 * flipped bit is refused with a reason; under a sanitizer, without touching a byte that
 * is not there. Flips under a repaired checksum are refused or harmless.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "decide.h"

enum { CHECKSUM_AT = 8, GUARDED_FROM = 16 };

static size_t stride; /* odd, so that each bit of a byte has its turn */

struct file {
	void *bytes;
	size_t size;
};

static struct file
read_file (const char *path)
{
	struct sluice_error err;
	struct file file = { NULL, 0 };
	if (sluice_read_trusted_file (path, getuid (), 1 << 20, &file.bytes, &file.size,
				      &err)
	    < 0) {
		fprintf (stderr, "%s\n", err.text);
		exit (2);
	}
	return file;
}

/* In memory of exactly this size, so that a byte too far is seen. */
static void *
copy_of (const struct file *file, size_t size)
{
	void *copy = malloc (size ? size : 1);
	memcpy (copy, file->bytes, size < file->size ? size : file->size);
	return copy;
}

static void
fix_checksum (unsigned char *bytes, size_t size)
{
	uint64_t checksum = sluice_crc64 (bytes + GUARDED_FROM, size - GUARDED_FROM);
	memcpy (bytes + CHECKSUM_AT, &checksum, sizeof checksum);
}

static int
bundle_is_usable (const void *bytes, size_t size, struct sluice_error *err)
{
	struct sluice_bundle *bundle;
	if (sluice_bundle_parse (bytes, size, &bundle, err) < 0)
		return 0;
	struct sluice_submission job = { .uid = 1, .name = "run", .nodes = 4 };
	struct sluice_situation *situation = sluice_situation_create (bundle, NULL);
	struct sluice_workspace *workspace = sluice_workspace_create ();
	static struct sluice_config config;
	static struct sluice_decision decision;
	sluice_config_init (&config);
	CHECK (workspace != NULL);
	sluice_decide (workspace, situation, &config, &job, 0, &decision);
	sluice_workspace_destroy (workspace);
	sluice_situation_destroy (situation);
	sluice_bundle_destroy (bundle);
	return 1;
}

static int
snapshot_is_usable (const void *bytes, size_t size, struct sluice_error *err)
{
	struct sluice_snapshot *snapshot;
	if (sluice_snapshot_parse (bytes, size, &snapshot, err) < 0)
		return 0;
	sluice_snapshot_partition (snapshot, "");
	sluice_snapshot_user (snapshot, 1);
	sluice_snapshot_destroy (snapshot);
	return 1;
}

typedef int usable (const void *, size_t, struct sluice_error *);

static void
refuses_every_truncation (const struct file *file, usable *is_usable)
{
	struct sluice_error err;
	for (size_t size = 0; size < file->size; size += stride) {
		void *copy = copy_of (file, size);
		err.text[0] = '\0';
		CHECK (!is_usable (copy, size, &err) && err.text[0]);
		free (copy);
	}
}

static void
refuses_every_flip (const struct file *file, usable *is_usable)
{
	struct sluice_error err;
	unsigned char *copy = copy_of (file, file->size);
	for (size_t bit = 0; bit < 8 * file->size; bit += stride) {
		copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
		err.text[0] = '\0';
		CHECK (!is_usable (copy, file->size, &err) && err.text[0]);
		copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	free (copy);
}

static void
survives_flips_under_a_mended_checksum (const struct file *file, usable *is_usable)
{
	unsigned char *copy = copy_of (file, file->size);
	for (size_t bit = 8 * GUARDED_FROM; bit < 8 * file->size; bit += stride) {
		struct sluice_error err = { "" };
		copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
		fix_checksum (copy, file->size);
		CHECK (is_usable (copy, file->size, &err) || err.text[0]);
		copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	free (copy);
}

static void
destroying_nothing_is_fine (void)
{
	sluice_bundle_destroy (NULL);
	sluice_snapshot_destroy (NULL);
	sluice_situation_destroy (NULL);
	sluice_free (NULL);
}

int
main (int argc, char **argv)
{
	static usable *const kinds[] = { bundle_is_usable, snapshot_is_usable };
	if (argc != 4 || (stride = strtoul (argv[3], NULL, 10)) == 0)
		return 2;
	for (int i = 0; i < 2; i++) {
		struct sluice_error err;
		struct file file = read_file (argv[1 + i]);
		CHECK (kinds[i](file.bytes, file.size, &err));
		refuses_every_truncation (&file, kinds[i]);
		refuses_every_flip (&file, kinds[i]);
		survives_flips_under_a_mended_checksum (&file, kinds[i]);
		sluice_free (file.bytes);
	}
	destroying_nothing_is_fine ();
	return check_report ();
}
