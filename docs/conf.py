"""Configuration of the documentation; ``make docs`` builds it, offline, with warnings as errors."""

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pictures  # noqa: E402

import pymc_arm  # noqa: E402

project = "pymc_arm"
author = "The pymc_arm developers"
copyright = author
release = version = pymc_arm.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build", "jupyter_execute", "README.md"]

html_theme = "furo"
html_title = "pymc_arm"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sphinx = False
html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

# Notebooks of the gallery are run once, and again when their code changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / ".jupyter_cache")
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_show_tb = True
nb_merge_streams = True
# What PyTensor says of the machine on which the documentation is built is no part of a notebook.
os.environ["PYTHONWARNINGS"] = "ignore:PyTensor could not link to a BLAS installation:UserWarning"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
autosummary_generate = False


def write_math(translator: object, node: nodes.Node) -> None:
    """Write a formula as MathML, which browsers show without a script from elsewhere."""
    block = isinstance(node, nodes.math_block)
    # The converter leaves no room after an operator.
    formula = re.sub(r"\\log\b", r"\\log\\,", node.astext())
    formula = convert(formula, display="block" if block else "inline")
    translator.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def mark_wide_pictures(app: object, doctree: nodes.document) -> None:
    """Tell pictures of measurements, which have several panels, from those of the build."""
    for image in doctree.findall(nodes.image):
        if "figures/" in image["uri"]:
            image["classes"].append("wide")


def keep_errors_together(app: object, doctree: nodes.document) -> None:
    """Let no line of a table end between a value and its error."""
    for cell in doctree.findall(nodes.entry):
        for text in list(cell.findall(nodes.Text)):
            joined = text.astext().replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
            text.parent.replace(text, nodes.Text(joined))


def setup(app: object) -> None:
    """Choose how formulas are shown, and draw the pictures before pages ask for them."""
    app.connect("doctree-read", mark_wide_pictures)
    app.connect("doctree-read", keep_errors_together)
    visitors = (write_math, None)
    app.add_html_math_renderer("mathml", visitors, visitors)
    pictures.draw_missing(HERE / "_static" / "generated")
