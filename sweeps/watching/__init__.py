"""Watching sweeps: where one stands, its log, its metrics, and what others see in the store."""
