"""What runs on a rented instance: timers for its end, disks, the sweep's process, and its results.

Nothing here depends on trials; `advisor.runs.cloud.agent` connects this with the sweep."""
