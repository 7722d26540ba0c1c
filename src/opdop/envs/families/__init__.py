"""Families of random problems for studies: a training half, on which settings are chosen, and a validation half."""

from opdop.envs.families.family import HALVES, Family, draw, families

__all__ = ["HALVES", "Family", "draw", "families"]
