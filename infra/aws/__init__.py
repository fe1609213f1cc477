"""One GPU instance of AWS for a sweep, launched and surely ended; see internals/launches.md."""
