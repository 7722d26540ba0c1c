"""What a person sees of a problem, its optimum and a run: a summary, and its faces: terminal, figures and HTML."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opdop.lazy import late_names

if TYPE_CHECKING:
    from opdop.report.comparison import Comparison, compare
    from opdop.runs import Run
else:
    __getattr__, __dir__ = late_names(__name__)

__all__ = ["Comparison", "compare", "report"]


def report(runs: str | Path | Run | Iterable[Run], out: str | Path = "report.html", *, figures: bool = False) -> Path:
    """Write one HTML page about runs, and return its path.

    Args:
        runs: a folder of one run or of many, a Run, or several of them.
        out: the page.
        figures: also save each figure as .svg, .pdf and .png, in a folder beside the page.

    A run whose model is not known has no optimum to be compared with: it is shown with realised totals. Raises
    InvalidParameterError if there is no run that can be shown.

    >>> import opdop, tempfile
    >>> run = opdop.train("factored", episodes=50)
    >>> report(run, f"{tempfile.mkdtemp()}/factored.html").name
    'factored.html'
    """
    from opdop.model import InvalidParameterError
    from opdop.report.figures import KINDS
    from opdop.report.html.write import write_report
    from opdop.report.summary.collection import collect, gather
    from opdop.runs import Run

    if isinstance(runs, (str, Path)):
        found = collect(runs)
    else:
        found = gather([runs] if isinstance(runs, Run) else list(runs))
        if not found.sections:
            reason = f": {found.missing[0].reason}" if found.missing else "."
            raise InvalidParameterError(f"there is no run that can be shown{reason}")
    return write_report(found, Path(out), kinds=KINDS if figures else ()).page


class _CallablePackage(ModuleType):
    """A package that writes a report when it is called: `opdop.report(run)` is public, as is the package."""

    def __call__(self, *arguments: Any, **options: Any) -> Path:
        """Return the path of the page that `report` writes."""
        return report(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
