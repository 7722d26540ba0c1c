"""Experiments whose printed tables and figures the documentation shows; each module has a function main()."""
