"""What `sluice doctor` finds: of Sluice's own files and daemons, of Slurm, of tokens."""
