"""The service: the same answers over HTTP, and a page. Only `advisor serve` imports it."""
