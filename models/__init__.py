"""Networks that are measured (`zoo`) and the performance model (`performance`)."""
