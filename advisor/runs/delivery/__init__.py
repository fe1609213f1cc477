"""Sends reports to files, S3, webhooks and mail addresses.

Only the command line and its schedules may name a target, never a client of the HTTP service."""
