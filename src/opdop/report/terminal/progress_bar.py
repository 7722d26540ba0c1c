"""A progress bar that prints nothing where it is disabled."""

from __future__ import annotations

from rich.progress import Progress


class ProgressBar(Progress):
    """The progress bar of rich; before its version 14.3 a disabled one ended with an empty line."""

    def stop(self) -> None:
        """End the bar, if it was shown."""
        if not self.disable:
            super().stop()
