"""Attacks on what docs/reliability.md guarantees: no wrong result, no lost data, no traceback, no crash, no hang."""
