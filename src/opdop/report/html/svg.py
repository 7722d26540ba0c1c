"""Figures as <svg> elements of a page.

Every colour becomes a variable of the page's style sheet, so that the page can be light or dark. Text stays text, so
that it can be searched and read out. Identifiers get the figure's name as a prefix, so that they are unique.
"""

from __future__ import annotations

import html
import io
import re
from xml.etree import ElementTree

from matplotlib.figure import Figure
from matplotlib.style import context as style_context

from opdop.report.figures import style

# Each colour of the figures: its name, and its value on a dark page.
PALETTE = {
    style.BLUE: ("blue", "#5AB4F0"),
    style.VERMILION: ("vermilion", "#FF8B52"),
    style.GREEN: ("green", "#35C79B"),
    style.ORANGE: ("orange", "#F2B632"),
    style.PURPLE: ("purple", "#E39CC8"),
    "#56B4E9": ("sky", "#A5DBFF"),
    style.INK: ("ink", "#E9E9E7"),
    style.GREY: ("grey", "#8F949A"),
    style.PALE: ("pale", "#2E3338"),
    style.FREE: ("free", "#2B2F33"),
    style.WALL: ("wall", "#6B7177"),
    style.HAZARD: ("hazard", "#5A3A26"),
    "#FFFFFF": ("paper", "#1B1E21"),
}
_NAMES = {colour.lower(): name for colour, (name, _) in PALETTE.items()}
_LINK = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_SPACES = re.compile(r"\s+")
_DECIMALS = re.compile(r"(\d+\.\d\d)\d+")
_FONT = re.compile(r"font-family: [^;]*;?")


def inline(figure: Figure, name: str, title: str) -> str:
    """Return a figure as an <svg> element; `name` is unique on the page, and `title` is for screen readers."""
    buffer = io.BytesIO()
    with style_context([*style.LOOK, {"svg.fonttype": "none"}]):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    box = root.attrib["viewBox"]
    body = _children(root, _referenced(root), name)
    return (
        f'<svg class="figure" viewBox="{html.escape(box)}" role="img" aria-label="{html.escape(title)}">'
        f"<title>{html.escape(title)}</title>{body}</svg>"
    )


def variable(colour: str) -> str:
    """Return the CSS value of a colour of the figures: a variable, or the colour if it is not in the palette.

    >>> variable("#0072B2"), variable("#123456")
    ('var(--blue)', '#123456')
    """
    name = _NAMES.get(colour.lower())
    return colour if name is None else f"var(--{name})"


def style_sheet() -> tuple[str, str]:
    """Return the palette as CSS declarations, for a light page and for a dark one."""
    light = ";".join(f"--{name}:{colour}" for colour, (name, _) in PALETTE.items())
    dark = ";".join(f"--{name}:{colour}" for name, colour in PALETTE.values())
    return light, dark


def _referenced(root: ElementTree.Element) -> set[str]:
    """Return the identifiers in a figure that another element refers to."""
    found = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            found |= {value[1:]} if key == _LINK and value.startswith("#") else set(_REFERENCE.findall(value))
    return found


def _children(parent: ElementTree.Element, referenced: set[str], name: str) -> str:
    return "".join(_element(child, referenced, name) for child in parent)


def _element(element: ElementTree.Element, referenced: set[str], name: str) -> str:
    """Return an element as text, without metadata, global styles and identifiers that nothing refers to."""
    tag = element.tag.rpartition("}")[2]
    if tag in ("metadata", "style") or element.attrib.get("style") == "fill: none":
        return ""
    named = element.attrib.get("id") in referenced
    attributes = dict(_attribute(*item, name) for item in element.attrib.items() if item[0] != "id" or named)
    words = html.escape((element.text or "") if tag in ("text", "tspan") else "", quote=False).strip()
    inside = words + _children(element, referenced, name)
    if tag in ("g", "defs") and not inside:
        return ""
    if tag == "g" and not attributes:
        return inside
    written = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>"


def _attribute(key: str, value: str, name: str) -> tuple[str, str]:
    """Return an attribute for the page: colours become variables, identifiers get the figure's name as a prefix."""
    if key == "id":
        return key, f"{name}-{value}"
    if key == _LINK:
        return "href", f"#{name}-{value[1:]}" if value.startswith("#") else value
    if key == "d":
        return key, _DECIMALS.sub(r"\1", _SPACES.sub(" ", value).strip())
    own = _REFERENCE.sub(lambda found: f"url(#{name}-{found[1]})", value)
    if key in ("fill", "stroke"):
        return key, _COLOUR.sub(lambda found: variable(found[0]), own)
    if key != "style":
        return key, own
    coloured = _COLOUR.sub(lambda found: variable(found[0]), _FONT.sub("", own))
    return key, _SPACES.sub(" ", coloured).replace(": ", ":").replace("; ", ";").strip("; ")
