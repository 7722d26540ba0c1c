"""Write the reference of the command line from the help of the commands themselves.

`make docs` makes the page anew whenever it builds the site, so that it is never out of date.
"""

from __future__ import annotations

import typer.main

from opdop.cli.application import COMMANDS, app

_WIDTH = 100
_OPENING = """# Command line

`make docs` makes this page from what each command prints with `--help`.
[Exit statuses and JSON](../command-line.md) explains the options, exit statuses and JSON in more detail.

"""


def help_of(command: str = "") -> str:
    """Return the help of a command as `opdop COMMAND --help` prints it on a wide terminal; of `opdop` itself if ""."""
    group = typer.main.get_command(app)
    with group.make_context(
        "opdop", [], resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
    ) as top:
        if not command:
            return group.get_help(top)
        found = group.get_command(top, command)  # type: ignore[attr-defined]
        with found.make_context(
            command, [], parent=top, resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
        ) as context:
            return str(found.get_help(context))


def page() -> str:
    """Return the text of the page, in Markdown."""
    sections = [_section("opdop", help_of())]
    sections += [_section(f"opdop {name}", help_of(name)) for name in COMMANDS]
    return _OPENING + "\n".join(sections)


def _section(name: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return f"## {name}\n\n```text\n{lines}\n```\n"
