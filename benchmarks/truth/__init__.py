"""Scores the predictor that ships, by the call that answers, on measured rows."""
