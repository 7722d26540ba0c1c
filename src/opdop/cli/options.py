"""Options that several commands have, each written once."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
FailureProbability = Annotated[
    float, typer.Option("--delta", metavar="P", help="Failure probability of the guarantee, such as 0.05.")
]
Noisy = Annotated[bool, typer.Option("--noisy", help="Observe rewards and utilities as 0 or 1 at random.")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
Preset = Annotated[str, typer.Option(help="Where the constants come from: see `opdop algorithms`.")]
