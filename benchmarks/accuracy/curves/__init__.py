"""Curves completed from a few trials: seconds over batch, rate over vCPUs, real over synthetic.

Forms for questions that public data ask and no command does: the product has trials of its own,
and joins its stages (models.performance.stages) instead.
"""
