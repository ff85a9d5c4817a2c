"""What programs do to each other on a site's storage: the model's fit, and its evidence."""
