"""Published step times that others measured; SOURCES.md names every source and its licence.

The bundled step times are fitted on `observations.csv.gz`; the module `observations` makes it."""
