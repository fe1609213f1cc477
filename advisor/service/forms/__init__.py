"""What clients may say: the command line's words, read by the command line's own readers."""
