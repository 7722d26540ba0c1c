"""Compiled arithmetic on plain arrays and pre-drawn uniforms; it imports no other room."""
