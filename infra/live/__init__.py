"""Current prices of AWS, Azure and Google, and AWS's offerings and quotas. Nothing else needs these."""
