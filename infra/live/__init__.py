"""Fetches current prices from AWS, Azure and Google, and AWS's offerings and quotas."""
