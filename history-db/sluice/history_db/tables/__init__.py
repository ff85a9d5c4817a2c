"""One module a group of tables; `Store` puts them together."""
