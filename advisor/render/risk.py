"""How much could be wrong with a rate, from 0 to 4, as AWS Compute Optimizer counts it."""

from __future__ import annotations

from advisor.domain import Prediction

RISKS = ("very low", "low", "medium", "high", "very high")
# Least lower bound over likely rate of each risk but the highest.
_SHARES = (0.95, 0.85, 0.6, 0.4)


def risk(prediction: Prediction) -> int:
    """0 (very low) to 4 (very high): how wide the interval is, and how far it was extrapolated.

    One fact outside of what was measured makes it 2 at least, three of them 3; 4 where no held-out
    residuals stand behind the interval.
    """
    if not prediction.calibrated:
        return len(RISKS) - 1
    share = prediction.lower / prediction.median
    by_width = next((i for i, least in enumerate(_SHARES) if share >= least), len(_SHARES))
    outside = len(prediction.extrapolation)
    return max(by_width, 3 if outside >= 3 else 2 if outside else 0)


def risk_text(prediction: Prediction) -> str:
    """'medium risk (2 of 4)'."""
    level = risk(prediction)
    return f"{RISKS[level]} risk ({level} of {len(RISKS) - 1})"
