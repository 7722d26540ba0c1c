"""Write a report: the page, and its figures as files for papers and slides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opdop.model import InvalidParameterError
from opdop.report import figures
from opdop.report.html import svg
from opdop.report.html.page import page
from opdop.report.html.pictures import Picture, pictures
from opdop.report.summary.collection import Collection
from opdop.runs.files import write_whole


@dataclass(frozen=True)
class Written:
    """The files of a report."""

    page: Path
    figures: tuple[Path, ...]


def write_report(
    collection: Collection,
    file: str | Path,
    *,
    kinds: Sequence[str] = figures.KINDS,
    progress: Callable[[int, int], None] | None = None,
) -> Written:
    """Write the page, and each figure as a file. The same runs give the same bytes.

    Args:
        collection: the runs, from `collect` or `gather`.
        file: the page, ending in .html; the figures of `x.html` go to the folder `x/figures`.
        kinds: the file endings with which each figure is saved.
        progress: called with (drawn, total) after each figure.

    Returns:
        The paths of the page and of the figures.

    Raises:
        InvalidParameterError: the name does not end in .html, or the folder cannot be written to.

    """
    target = Path(file)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidParameterError(f"{str(target)!r} is not a name for a report; expected a file ending in .html.")
    folder = target.with_suffix("") / "figures"
    try:
        (folder if kinds else target.parent).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(f"cannot write into {str(folder)!r}: {error.strerror or error}.") from error
    planned = {section.key: pictures(section) for section in collection.sections}
    total, done = sum(map(len, planned.values())), 0
    drawn: dict[str, list[tuple[Picture, str]]] = {}
    written = []
    for key, wanted in planned.items():
        drawn[key] = []
        for picture in wanted:
            with warnings.catch_warnings():
                # The figures' font may lack a letter of a name; the page uses the reader's fonts.
                warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
                figure = picture.draw()
                written += [figures.save(figure, folder / f"{picture.name}{kind}") for kind in kinds]
                drawn[key].append((picture, svg.inline(figure, picture.name, picture.title)))
            done += 1
            if progress is not None:
                progress(done, total)
    text = page(collection, drawn).encode("utf-8")
    write_whole(target, lambda out: out.write(text))
    return Written(target, tuple(written))
