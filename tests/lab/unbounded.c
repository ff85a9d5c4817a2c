/*
 * A coordinator whose holds do not end: linked into one of the lab by `--wrap`, to see that
 * agents end them all the same.
 */
void __wrap_sluice_turns_pass (double respite, double share, double seconds,
			       double *stretch, double *went);

void
__wrap_sluice_turns_pass (double respite, double share, double seconds, double *stretch,
			  double *went)
{
	(void)respite;
	(void)share;
	(void)seconds;
	*stretch = *went = 0.0;
}
