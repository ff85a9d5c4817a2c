"""What commands, pages and answers to users show of jobs and of a site: read from the history."""
