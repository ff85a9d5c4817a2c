/*
 * Lines of the Standard Workload Format (Chapin et al. 1999; Parallel Workloads
 * Archive, version 2.2): 18 numbers a job, -1 where one is not known. Some writers, such
 * as Alea's, add columns of their own behind these: they are passed over.
 */
#ifndef SLUICE_SWF_H
#define SLUICE_SWF_H

#include "base.h"

enum { SLUICE_SWF_FIELDS = 18 };

enum sluice_swf_fault {
	SLUICE_SWF_NO_NUMBER,
	SLUICE_SWF_TOO_FEW_FIELDS,
	SLUICE_SWF_TOO_MANY_FIELDS /* more than the first job's line: two lines in one */
};

/* A line that was passed over. */
struct sluice_swf_problem {
	uint64_t line;	/* from 1 */
	uint32_t field; /* from 1: where it went wrong */
	uint32_t fault; /* enum sluice_swf_fault */
};

struct sluice_swf_reader {
	const char *text; /* need not be terminated */
	uint64_t size;
	double *rows; /* [row_capacity * SLUICE_SWF_FIELDS] */
	struct sluice_swf_problem *problems;
	uint64_t row_capacity;
	uint64_t problem_capacity;
	uint64_t row_count;
	uint64_t problem_count; /* may exceed what there is room for */
};

/* Lines of a text, an upper bound of its rows. */
uint64_t sluice_swf_lines (const char *text, uint64_t size);

/* Read the whole text; comments and blank lines are passed over. Sets row_count and
 * problem_count; rows beyond row_capacity are not read. */
void sluice_swf_read (struct sluice_swf_reader *reader);

#endif
