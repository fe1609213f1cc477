"""Runs a plan by an executor (processes, Ray), and stores the measurements."""
