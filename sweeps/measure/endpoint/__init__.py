"""A language model behind an OpenAI-compatible endpoint, measured under a load of our own."""
