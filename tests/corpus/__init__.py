"""What the product answered before its rooms were rebuilt, question by question."""
