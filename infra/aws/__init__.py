"""One GPU instance of AWS for a sweep, launched and always ended; see internals/launches.md."""
