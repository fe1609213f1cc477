"""A served language model, measured: at its endpoint, or by an engine that is started for it."""
