"""Turns launch options into one running instance, and removes it again."""
