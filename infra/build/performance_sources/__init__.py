"""Step times that others measured and published; SOURCES.md names every source and its licence.

`observations.csv.gz` is what the step times that ship are fitted on; `observations` makes it."""
