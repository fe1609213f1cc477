"""Curves completed from a few trials: seconds over batch, rate over vCPUs, real over synthetic."""
