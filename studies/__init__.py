"""Experiments whose printed tables the documentation quotes: each module has a function main()."""
