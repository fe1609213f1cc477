"""The kinds of work that the engine answers, a task each."""
