"""Questions about language models: offers -> ways to serve -> rates -> decision -> explanation."""
