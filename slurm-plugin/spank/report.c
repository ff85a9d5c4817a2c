#include "report.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <slurm/spank.h>

void
report (const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start (arguments, format);
	vsnprintf (text, sizeof text, format, arguments);
	va_end (arguments);
	if (spank_context () == S_CTX_REMOTE)
		slurm_info ("sluice: %s", text);
	else
		slurm_verbose ("sluice: %s", text);
}
