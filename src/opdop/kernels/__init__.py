"""Compiled arithmetic on plain arrays and pre-drawn uniforms; knows nothing of the rest."""
