"""The HTTP routes: each reads a question, calls one function, and returns its document."""
