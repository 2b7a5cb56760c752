"""Pieces of HTML that notebooks and reports show.

A piece has no colours of its own for text and background: it takes those of the page, so that it
can be read on a light page and on a dark one. Lines are a half transparent grey, which is seen on
both. Every value that comes in is escaped: names of models and variables are the user's.
"""

import base64
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["box", "paragraph", "picture", "table"]

LINE = "1px solid rgba(128, 128, 128, 0.4)"
# Bars at the left of a verdict; each has a contrast of 3 or more to white and to #111.
COLORS = {
    "ok": "#2f9e55",
    "caution": "#c77700",
    "failed": "#e0483e",
    "": "#888888",
}
# What matplotlib draws in these colours is shown in others on light and on dark pages; the first is
# that of text and axes.
INK = "#123456"
PAINTS = {
    INK: ("#222222", "#dddddd"),
    "#333333": ("#333333", "#cccccc"),
    "#737373": ("#6a6a6a", "#a5a5a5"),
    "#1f77b4": ("#1f77b4", "#5fb0ec"),
    "#ff7f0e": ("#c75d00", "#ff9a45"),
    "#2ca02c": ("#248424", "#4cc24c"),
    "#d62728": ("#d62728", "#ff6b6b"),
}
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "pymc_arm",
    "font.size": 11,
    "savefig.transparent": True,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
}
# Longer tables show as many rows of their beginning and of their end together.
MOST_ROWS = 40


def paragraph(text: Any, *, strong: bool = False) -> str:
    """Return a paragraph; line breaks of the text are kept.

    Examples
    --------
    >>> from pymc_arm.html import paragraph
    >>> paragraph("a < b")
    '<p style="margin: 0.3em 0; white-space: pre-line">a &lt; b</p>'
    """
    words = escape(str(text))
    words = f"<strong>{words}</strong>" if strong else words
    return f'<p style="margin: 0.3em 0; white-space: pre-line">{words}</p>'


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Collection[int] = ()
) -> str:
    """Return a table that scrolls sideways where the page is too narrow for it.

    Parameters
    ----------
    columns
        The names of the columns.
    rows
        The cells of each row; the first is the row's name. Of many rows the middle is left out.
    numbers
        Which columns are aligned at the right.

    Examples
    --------
    >>> from pymc_arm.html import table
    >>> made = table(["model", "log Z"], [["a <b>", -1.5]], numbers=[1])
    >>> "a &lt;b&gt;" in made, made.count("<tr")
    (True, 2)
    """
    found = list(rows)
    parts = [_row("th", columns, numbers, "col")]
    hidden = len(found) - MOST_ROWS
    for place, row in enumerate(found):
        if hidden > 0 and MOST_ROWS // 2 <= place < MOST_ROWS // 2 + hidden:
            if place == MOST_ROWS // 2:
                parts.append(_row("td", [f"... {hidden} more", *[""] * (len(columns) - 1)], ()))
            continue
        parts.append(_row("td", row, numbers))
    return (
        '<div style="overflow-x: auto"><table style="border-collapse: collapse; font-size: 0.95em; '
        'margin: 0.5em 0">'
        f"{''.join(parts)}</table></div>"
    )


def box(*parts: str, status: str = "") -> str:
    """Return pieces of HTML with a bar at their left, in the colour of a verdict.

    Examples
    --------
    >>> from pymc_arm.html import box, paragraph
    >>> box(paragraph("fine"), status="ok").startswith('<div style="border-left: 3px solid #2f9')
    True
    """
    color = COLORS.get(status, COLORS[""])
    return (
        f'<div style="border-left: 3px solid {color}; padding-left: 0.8em; margin: 0.5em 0">'
        f"{''.join(parts)}</div>"
    )


def picture(
    caption: str,
    size: tuple[float, float],
    draw: Callable[[Any, Any], Any],
    data: Any,
    ratios: Sequence[int] = (1,),
) -> str:
    """Return a drawing in the colours of a light or a dark page, with its caption.

    Parameters
    ----------
    caption
        What is to be seen.
    size
        Of the figure, in inches.
    draw
        A function of :mod:`pymc_arm.plots`, which is called with ``data`` and axes.
    data
        What is drawn.
    ratios
        The heights of the axes, if there are several.

    Returns
    -------
    str
        A figure with an image inside. Without matplotlib, a sentence instead.
    """
    words = escape(caption)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return f'<p class="soft">{words}: not drawn, since matplotlib is not installed.</p>'
    written = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(ratios), sharex=True, height_ratios=list(ratios))
        draw(data, axes)
        figure.savefig(written, format="svg", bbox_inches="tight", metadata={"Date": None})
    drawing = written.getvalue()
    themes = ["", ""]
    for number, (drawn, shown) in enumerate(PAINTS.items()):
        drawing = drawing.replace(drawn, f"var(--c{number})")
        themes = [f"{theme}--c{number}:{c};" for theme, c in zip(themes, shown, strict=True)]
    light, dark = themes
    theme = f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    drawing = drawing.replace("*{", f"{theme}*{{", 1)
    code = base64.b64encode(drawing.encode()).decode()
    return (
        f'<figure><img src="data:image/svg+xml;base64,{code}" alt="{words}">'
        f"<figcaption>{words}</figcaption></figure>"
    )


def _row(tag: str, cells: Sequence[Any], numbers: Collection[int], scope: str = "") -> str:
    made = []
    for place, cell in enumerate(cells):
        side = "right" if place in numbers else "left"
        # A number with its error stays on one line; names of columns may be longer.
        wrap = "nowrap" if place in numbers and tag == "td" else "normal"
        style = f"text-align: {side}; white-space: {wrap}; vertical-align: top"
        style += f"; padding: 0.25em 0.45em; border: none{'' if place else '; min-width: 5em'}"
        scoped = f' scope="{scope}"' if scope else ""
        made.append(f'<{tag}{scoped} style="{style}">{escape(str(cell))}</{tag}>')
    return f'<tr style="border-bottom: {LINE}">{"".join(made)}</tr>'
