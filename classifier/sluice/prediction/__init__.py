"""The history -> what the next run will do; trained, published, judged."""
