"""What the source articles claim, beside what this product measures, models or leaves out."""
