"""One GPU instance of AWS for a sweep, launched and surely ended; see docs/internals/launches.md."""
