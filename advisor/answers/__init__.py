"""Answers: one function a question, for the command line, the service and Python alike.

What comes back is a record with a `document()`, or the document: `-o json` prints it, the service sends it,
so the two cannot disagree. Nothing is imported here: a list of GPUs waits for no model."""
