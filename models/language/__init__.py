"""Language models: facts, memory, serving and tuning."""
