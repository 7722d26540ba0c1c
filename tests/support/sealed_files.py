"""Files with a right checksum, whatever else is wrong with them."""

from __future__ import annotations

import hashlib
from pathlib import Path

SEAL = b"opdop file 1, sha256 "


def seal(path: Path, content: bytes) -> None:
    """Write a zip, whose comment must be as long as a seal, with the right checksum."""
    assert content[-64 - len(SEAL) : -64] == SEAL
    path.write_bytes(content[:-64] + hashlib.sha256(content[:-64]).hexdigest().encode())
