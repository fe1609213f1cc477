"""What changed between two saved reports or recommendations: pure, from the documents alone."""
