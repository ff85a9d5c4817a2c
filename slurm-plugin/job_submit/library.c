#include "library.h"

#include <dlfcn.h>
#include <string.h>

void
library_identify (struct library *out)
{
	static const char own;
	Dl_info found;

	memset (out, 0, sizeof *out);
	if (dladdr (&own, &found) && found.dli_fname
	    && stat (found.dli_fname, &out->loaded) == 0)
		sluice_copy_text (out->path, sizeof out->path, found.dli_fname);
}
