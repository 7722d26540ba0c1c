"""Checks that any learner can be put through: see `check_learner`."""

from opdop.testing.conformance import LearnerCheckError, LearnerReport, check_learner

__all__ = ["LearnerCheckError", "LearnerReport", "check_learner"]
