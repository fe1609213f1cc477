"""Answers: one function a question, for the command line, the service and Python alike.

Each returns a record with a `document()`, or the document itself: `-o json` prints it and the service sends
it, so the two cannot disagree. Nothing is imported here, so that a list of GPUs does not load a model."""
