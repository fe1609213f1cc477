"""One function a question: words -> the answer, for whoever asks (command line, service).

What comes back is a record with a `document()`, or the document: `-o json` prints it, the service
sends it, so the two cannot disagree. Nothing is imported here: a list of GPUs waits for no model.
"""
