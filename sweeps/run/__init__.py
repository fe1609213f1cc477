"""Takes a plan through an executor (processes, Ray) into the store."""
