"""Fixtures of the tests of one run."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk, in tests that write often."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
