"""From the words of a question, wherever they were said, to what the answers need."""
