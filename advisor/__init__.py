"""The product: words, catalogue, decision, report, commands."""
