"""The control loop at the gates: its state from Slurm, its verdicts, and what carries them out."""
