"""Runs a plan of trials, and stores their measurements."""
