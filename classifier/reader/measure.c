/* Rows -> what the pattern classifier sees, and what a profile says. */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	LANES = 8,   /* sums side by side */
	BLOCK = 128, /* values summed so; more are halved first */
};

static double
sum_block (const double *values, int64_t count)
{
	double lane[LANES];
	int64_t i = LANES;

	for (int k = 0; k < LANES; k++)
		lane[k] = values[k];
	for (; i + LANES <= count; i += LANES)
		for (int k = 0; k < LANES; k++)
			lane[k] += values[i + k];
	double sum = ((lane[0] + lane[1]) + (lane[2] + lane[3]))
		     + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
	for (; i < count; i++)
		sum += values[i];
	return sum;
}

double
sum_of (const double *values, int64_t count)
{
	if (count > BLOCK) {
		int64_t half = count / 2 - count / 2 % LANES;
		return sum_of (values, half) + sum_of (values + half, count - half);
	}
	if (count >= LANES)
		return sum_block (values, count);
	double sum = 0.0;
	for (int64_t i = 0; i < count; i++)
		sum += values[i];
	return sum;
}

/* Rows as uses of files */

static struct use
use_of (const struct sluice_file_row *row)
{
	double written = row->posix_bytes_written + row->stdio_bytes_written;
	double read = row->posix_bytes_read + row->stdio_bytes_read;
	return (struct use){
		.program = row->program > 0,
		.wrote = written > 0,
		.streamed = row->stdio_opens > 0,
		.shared = row->owner < 0,
		.written = written,
		.read = read,
		.size = row->max_byte_written + 1,
		.extent = row->max_byte_read + 1,
		.opens = larger (row->posix_opens - row->posix_opens_on_top, 0)
			 + larger (row->stdio_opens - row->stdio_fdopens, 0),
		.writes = row->posix_writes + row->stdio_writes,
		.reads = row->posix_reads + row->stdio_reads,
		.seconds = row->read_time + row->write_time + row->meta_time,
		.random = how_random (row),
		.meta_time = row->meta_time,
		.writing
		= row->write_time + ratio (written, written + read) * row->meta_time,
	};
}

static int
add_use (struct run *run, int64_t number)
{
	const struct sluice_file_row *row = &run->log->rows[number];
	struct use *use = &run->uses[number];
	*use = use_of (row);
	struct group *process = groups_find (&run->processes, (uint64_t)row->owner, 0);
	struct group *file = groups_find (&run->files, row->id, 0);
	if (!process || !file)
		return -1;
	use->process = (uint32_t)(process - run->processes.all);
	use->file = (uint32_t)(file - run->files.all);
	process->count += use->wrote;
	process->sum += use->seconds;
	process->touched += larger (use->size, use->extent);
	file->count++;
	file->sum += use->written;
	file->most = larger (file->most, use->size);
	add_row (run, use, row);
	note_row (run, row);
	return 0;
}

static int
add_uses (struct run *run)
{
	size_t rows = (size_t)run->log->row_count;
	run->uses = malloc ((rows + 1) * sizeof *run->uses);
	run->values = malloc ((rows + 1) * sizeof *run->values);
	if (!run->uses || !run->values
	    || groups_reserve (&run->processes, (uint32_t)rows + 1) < 0
	    || groups_reserve (&run->files, (uint32_t)rows + 1) < 0)
		return -1;
	EACH (run, i)
		if (add_use (run, i) < 0)
			return -1;
	EACH (run, i) {
		struct use *use = &run->uses[i];
		use->in_common = use->shared || run->files.all[use->file].count > 1;
		if (use->in_common)
			run->common_written += use->written;
	}
	return 0;
}

/* What the classifier sees */

/* log2 (1 + value) */
static float
octaves (double value)
{
	return (float)log2 (1 + value);
}

/* How many equal shares of the bytes written would be as evenly spread over files: exp of
 * the entropy, 0 without any. */
static double
even_count (const struct run *run)
{
	double entropy, all = larger (1, run->recorded);
	if (run->files_written == 0)
		return 0;
	SUM (entropy, run, use->wrote, use->written / all * log (use->written / all));
	return exp (-entropy);
}

static void
volumes_into (const struct run *run, struct sluice_features *out)
{
	double data = run->written + run->read;
	out->read_ratio = (float)ratio (run->read, data);
	out->supplied_share = (float)run->supplied;
	out->log2_bytes = octaves (data);
	out->log2_written = octaves (run->written);
	out->log2_operations = octaves (run->operations);
	out->log2_operations_per_process = octaves (run->operations / run->nprocs);
	out->log2_bytes_per_operation = octaves (data / larger (1, run->operations));
	out->metadata_time_ratio
	    = (float)(run->metadata_seconds / larger (1e-9, run->seconds));
	out->program_files_ratio
	    = (float)(run->program_read / larger (1, data + run->program_read));
	out->coverage = (float)run->coverage;
	out->mapped = (float)run->mapped;
	out->shared_share = (float)ratio (run->common_written, run->recorded);
}

static void
files_into (const struct run *run, struct sluice_features *out)
{
	double files = run->files_written, owners, each, mean = 1;
	SUM (owners, run, use->wrote, use->shared ? 1 : run->writers);
	SUM (each, run, use->wrote, 1 / (use->shared ? 1 : run->writers));
	if (files > 0)
		mean = owners / files;
	out->log2_files_per_writer = octaves (each);
	out->log2_even_files_per_writer = octaves (even_count (run) / mean);
	out->log2_successive_files = octaves (run->successive);
	out->log2_named_files = octaves (run->named);
	out->log2_opens_per_file = octaves (run->opens_to_write / larger (1, files));
	out->log2_overwrite = octaves (run->recorded / larger (1, run->size));
	out->reopened_share = (float)run->reopened;
	out->truncated_share = (float)run->truncated;
}

static void
writes_into (const struct run *run, struct sluice_features *out)
{
	double written = larger (1, run->recorded);
	double writes = run->writes_of_written, some = larger (1, writes);
	out->log2_writes_per_open = octaves (writes / larger (1, run->opens_to_write));
	out->stdio_share = (float)(run->stdio_written / written);
	out->streamed_share = (float)ratio (run->streamed_written, run->recorded);
	out->mpiio_share = (float)smaller (1, run->mpiio_written / written);
	out->random_share = (float)run->random;
	out->consecutive_ratio = (float)(run->consecutive / some);
	out->log2_chunk = octaves (run->chunk);
	out->flushes_per_write = (float)smaller (4, run->flushes / some);
}

static void
shares_into (const struct run *run, struct sluice_features *out)
{
	out->share_owc = (float)run->of_data.owc;
	out->share_ws = (float)run->of_data.ws;
	out->share_aw = (float)run->of_data.aw;
	out->share_read = (float)run->of_data.read;
	out->share_metadata = (float)run->of_bytes.metadata;
	out->significance = (float)run->significance;
}

/* What a profile says */

static double
collective_share (const struct run *run)
{
	double moved;
	if (run->mpiio_written == 0)
		return 0;
	SUM (moved, run, 1,
	     row->mpiio_bytes_written
		 * ratio (row->mpiio_coll_writes,
			  row->mpiio_coll_writes
			      + (row->mpiio_indep_writes + row->mpiio_nb_writes)));
	return smaller (1, ratio (moved, run->recorded));
}

static double
creates_of (const struct use *use)
{
	return use->written / larger (use->size, 1) > sluice_rewritten
		   ? larger (use->opens, 1)
		   : 1;
}

/* Of a run that wrote, whose records speak for it. */
static void
write_numbers_into (const struct run *run, struct sluice_log_numbers *out)
{
	double written = run->recorded, flushes = run->flushes, creates;
	double per_flush = written / (flushes > 0 ? flushes : 1);
	int waits = flushes > 0 && per_flush <= run->chunk;
	SUM (creates, run, use->wrote, creates_of (use));
	out->bytes_per_flush = per_flush;
	out->unflushed_bytes = waits ? 0 : smaller (per_flush, written / run->writers);
	out->creates_per_mib = creates / (written / (1 << 20));
	out->shared_share = ratio (run->common_written, run->recorded);
	out->collective_share = collective_share (run);
	out->async_io = run->is_async ? 1 : NAN;
	out->direct_share = run->is_direct ? NAN : 0;
}

static void
read_numbers_into (const struct run *run, struct sluice_log_numbers *out)
{
	out->read_sequential_share = sequential_share (run);
	out->read_cached_share = cached_share (run);
}

static void
numbers_into (const struct run *run, struct sluice_log_numbers *out)
{
	double runtime = run->log->runtime, seconds = run->slowest;
	int is_enough = run->coverage >= sluice_enough_coverage;
	double *each = &out->nprocs;
	for (size_t i = 0; i < sizeof *out / sizeof *each; i++)
		each[i] = NAN;
	out->nprocs = run->nprocs;
	if (!run->blind) {
		out->write_bytes = run->written;
		out->read_bytes = run->read;
	}
	out->runtime_seconds = runtime;
	out->targets = run->log->target_count > 0 ? run->log->target_count : NAN;
	if (run->chunk > 0)
		out->chunk_bytes = run->chunk;
	if (run->read_chunk > 0)
		out->read_chunk_bytes = run->read_chunk;
	if (is_enough && runtime > 0)
		out->io_share = smaller (1, seconds / runtime);
	if (is_enough && seconds > 0) {
		out->rate = (run->written + run->read + run->program_read) / seconds;
		out->metadata_rate = run->operations / seconds;
	}
	if (is_enough)
		out->files = run->files_written;
	if (is_enough && run->recorded > 0)
		write_numbers_into (run, out);
	if (is_enough && run->read > 0)
		read_numbers_into (run, out);
}

static void
measurement_into (const struct run *run, struct sluice_measurement *out)
{
	shares_into (run, &out->features);
	volumes_into (run, &out->features);
	files_into (run, &out->features);
	writes_into (run, &out->features);
	numbers_into (run, &out->numbers);
	out->of_bytes = run->of_bytes;
	out->of_time = run->of_time;
	out->coverage = run->coverage;
	out->slowest_seconds = run->slowest;
}

static int
measure (struct run *run, struct sluice_measurement *out, struct sluice_error *err)
{
	if (add_uses (run) < 0)
		return sluice_fail (err, "reading it needs too much memory");
	if (check_possible (run, err) < 0)
		return -1;
	if (find_totals (run) < 0 || find_behaviour (run) < 0)
		return sluice_fail (err, "reading it needs too much memory");
	measurement_into (run, out);
	return 0;
}

int
sluice_log_measure (const struct sluice_log *log, struct sluice_measurement *out,
		    struct sluice_error *err)
{
	struct run run = { .log = log, .nprocs = (double)log->nprocs };
	int result = measure (&run, out, err);
	free (run.uses);
	free (run.values);
	groups_free (&run.processes);
	groups_free (&run.files);
	return result;
}
