"""The side of a rented instance: its end first, then disks, the sweep, and its measurements.

Nothing here knows of trials; `advisor.runs.cloud.agent` joins this with the sweep."""
