"""One module and class a subject; `Store` has one of each."""
