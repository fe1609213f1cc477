"""Reports brought to people: to a file, S3, a webhook or by mail.

Only the command line and its schedules name a target; a client of the HTTP service never does."""
