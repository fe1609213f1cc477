"""How many questions a second the service answers, how soon, and in how much memory."""
