"""The storage under a replay: the models, in C, and what a calibration learns of them."""
