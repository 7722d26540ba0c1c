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
from opdop.report.summary.groups import Collection
from opdop.runs.files import write_whole


@dataclass(frozen=True)
class Written:
    """Where a report is."""

    page: Path
    figures: tuple[Path, ...]


def write_report(
    collection: Collection,
    file: str | Path,
    *,
    kinds: Sequence[str] = figures.KINDS,
    progress: Callable[[int, int], None] | None = None,
) -> Written:
    """Write the page, and each figure in every one of `kinds` into the folder beside it that has the page's name.

    The same runs give the same bytes. `progress` is told how many of the figures are drawn.
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
                # Of letters that the figures' font lacks; on the page the reader's own fonts have them.
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
