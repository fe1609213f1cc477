"""AWS asked today: prices, spot prices, offerings, quotas. Everything else works without."""
