"""How well the performance model predicts what it was not fitted on: one module a suite."""
