"""`sluice site …`: commands on what a site loses, and what would help."""
