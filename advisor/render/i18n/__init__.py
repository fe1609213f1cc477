"""What the engine says, in the languages that people read: for the page and for reports."""
