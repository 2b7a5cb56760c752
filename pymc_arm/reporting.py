"""A comparison of models as one page that can be sent to somebody else.

The page answers in the order in which people ask: which model, by how much, why, how sure, how was
it done, and how could I do it again. Everything is in one file: pictures are drawings (SVG) inside
of it, and it takes the reader's colours, light or dark, and width. ``report_template.html`` has its
style.
"""

import contextlib
import logging
import math
import platform
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_arm import plots
from pymc_arm._compat import get_group, has_group, observed_data, unwrap_model
from pymc_arm.comparison import bayes_factor, compare, read_evidence
from pymc_arm.comparison.evidence_path import EvidencePath, evidence_path
from pymc_arm.comparison.nested import Agreement, Nested, check_nested, read_nested
from pymc_arm.comparison.reading import read_attributes, read_seconds
from pymc_arm.comparison.running import run_models
from pymc_arm.comparison.sensitivity import sensitivity
from pymc_arm.comparison.table import ComparisonTable, check_models
from pymc_arm.diagnosis import diagnose
from pymc_arm.errors import TrustWarning
from pymc_arm.html import box, paragraph, picture, table
from pymc_arm.models.plan import Plan
from pymc_arm.results import Evidence, summarize
from pymc_arm.sampling import plan

__all__ = ["report"]

_log = logging.getLogger("pymc")

# A run observation by observation has a step for each, all of them for a picture; of more than this
# many it shows no more than of these, and costs in proportion.
MOST_OBSERVATIONS = 200
# Factors of the scale of a prior, and of how many priors of a model the page tells; each takes a
# tenth of a second.
SCALES = (0.5, 2.0)
MOST_PRIORS = 12
PACKAGES = ("pymc", "pytensor", "arviz", "numpy", "scipy", "numba", "xarray")
# Names of models that leave room for two pictures side by side.
LONGEST_IN_PAIR = 20
ESTIMATES = {"explore": "exploring", "refine": "refined"}
# Heights of the panels of a run.
RATIOS = (2, 1, 2, 1)


def report(
    models: Mapping[str, Any],
    file: str | PathLike[str],
    *,
    question: str = "Which model do the data favour?",
    prior_odds: Mapping[str, float] | Sequence[float] | None = None,
    scale: str = "kass-raftery",
    observations: bool = True,
    nested: Nested | None = None,
    **sample_kwargs: Any,
) -> Path:
    """Compare models, and write a page about it.

    Parameters
    ----------
    models
        By name, as in :func:`pymc_arm.compare`: models that are still to be run, or results. Of
        results the page has no plan, no priors and no sensitivity to them, since they do not know
        their models.
    file
        Where to write the page; one that is there is replaced.
    question
        What the comparison is about: the title of the page.
    prior_odds
        As in :func:`pymc_arm.compare`.
    scale
        As in :func:`pymc_arm.bayes_factor`.
    observations
        Whether to run the models once more with one observation at a time, with half as many
        draws, to show which observations decide. It is left out if a model is given as a result
        or has more than 200 observations.
    nested
        As in :func:`pymc_arm.compare`: the page then says whether Savage-Dickey ratios agree.
    **sample_kwargs
        Passed to :func:`pymc_arm.sample`. Without a ``random_seed`` one is drawn; the page says
        which.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pymc_arm
    >>> from pymc_arm.results import Evidence
    >>> models = {"one": Evidence(-10.0, 0.1, 3), "two": Evidence(-14.0, 0.2, 3)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pymc_arm.report(models, Path(folder) / "report.html")
    ...     "The data favour one over two" in file.read_text()
    True
    """
    check_models(models)
    path = Path(file)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"file={str(file)!r}: there is no folder {str(path.parent)!r}.")
    inside = {name: unwrap_model(model) for name, model in models.items()}
    known = {name: model for name, model in inside.items() if isinstance(model, pm.Model)}
    if known and sample_kwargs.get("random_seed") is None:
        sample_kwargs["random_seed"] = int(np.random.SeedSequence().generate_state(1)[0])
    nested = read_nested(models, nested)
    results = run_models(models, sample_kwargs)
    made = compare(results, prior_odds)
    agreements = check_nested(models, results, nested)
    sections = [
        _headline(question, made, results, scale),
        _comparison(made, results, scale, prior_odds),
        _path_section(known, results, sample_kwargs) if observations else "",
        _prior_section(made, results, known),
        _certainty(made, results) + _nested_section(agreements),
        _runs(made, results, known),
        _reproduction(known, sample_kwargs),
    ]
    template = Template(files("pymc_arm").joinpath("report_template.html").read_text("utf-8"))
    page = template.substitute(title=escape(question), body="\n".join(sections))
    path.write_text(page, encoding="utf-8")
    return path


def _headline(question: str, made: ComparisonTable, results: Mapping[str, Any], scale: str) -> str:
    best = str(made.index[0])
    answer = f"There is one model, {best}: there is nothing to compare it with."
    if len(made) > 1:
        names = (best, str(made.index[1]))
        answer = str(bayes_factor(*(results[n] for n in names), names=names, scale=scale))
    statuses = [status for status in made["verdict"] if status in ("caution", "failed")]
    worst = max(statuses, default="", key=("caution", "failed").index)
    doubt = "Not every log Z can be trusted as it stands: see how sure this is, below."
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    return (
        f"<h1>{escape(question)}</h1>"
        f'<p class="soft">{len(made)} models, compared by their marginal likelihoods; {today}</p>'
        f"{box(paragraph(answer, strong=True), paragraph(doubt) if worst else '', status=worst)}"
    )


def _comparison(
    made: ComparisonTable, results: Mapping[str, Any], scale: str, prior_odds: Any
) -> str:
    best = str(made.index[0])
    # The first of them is the answer at the head of the page.
    factors = [
        bayes_factor(results[best], results[other], names=(best, str(other)), scale=scale)
        for other in made.index[2:]
    ]
    prior = "all models are equally probable"
    if prior_odds is not None:
        known = isinstance(prior_odds, Mapping)
        odds = prior_odds if known else dict(zip(results, prior_odds, strict=True))
        prior = "their weights are " + ", ".join(f"{odds[name]:g} ({name})" for name in results)
    size = (5.6, 1.2 + 0.5 * len(made))
    short = max(len(str(name)) for name in made.index) <= LONGEST_IN_PAIR
    pictures = [
        picture("log Z of each model", size, plots.plot_comparison, made),
        picture("Probabilities of the models", size, plots.plot_model_probabilities, made),
    ]
    return "\n".join(
        [
            "<h2>The comparison</h2>",
            paragraph(
                "log Z is the natural logarithm of the probability that a model gave to the data, "
                "with its standard error. Probabilities are those of the models after the data, if "
                f"one of them is true and before the data {prior}; their intervals come from the "
                "errors of log Z alone."
            ),
            str(made._repr_html_()),
            f'<div class="{"pair" if short else ""}">{"".join(pictures)}</div>',
            *(paragraph(factor) for factor in factors),
        ]
    )


def _path_section(
    models: Mapping[str, pm.Model], results: Mapping[str, Any], keywords: Mapping[str, Any]
) -> str:
    title = "<h2>Where the evidence comes from</h2>"
    if len(models) < len(results):
        return title + paragraph("This needs all models, and is left out: some are results.")
    count = max(sum(np.size(v) for v in observed_data(m).values()) for m in models.values())
    if count > MOST_OBSERVATIONS:
        return title + paragraph(f"Left out: there are {count} observations.")
    options = {name: keywords[name] for name in ("chains", "cores", "executor") if name in keywords}
    options |= {"draws": max(int(keywords.get("draws", 1000)) // 2, 1)}
    options |= {"progressbar": keywords.get("progressbar", True)}
    seeds = np.random.default_rng(keywords["random_seed"]).spawn(len(models))
    paths: dict[str, EvidencePath] = {}
    try:
        # This run is for the picture: below, its log Z is compared with that of the result.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrustWarning)
            for seed, (name, model) in zip(seeds, models.items(), strict=True):
                _log.info("Running again, one observation at a time: %s", name)
                paths[name] = evidence_path(model, random_seed=seed, **options)
        caption = "How the evidence builds up, observation by observation"
        drawn = picture(caption, (7, 3.8), plots.plot_evidence_path, paths)
    except Exception as error:  # a picture must not cost the results of long runs
        return title + paragraph(f"Left out: {type(error).__name__}: {error}")
    rows = [
        (
            name,
            f"{one.log_evidence[-1]:.2f} ± {one.standard_errors[-1]:.2g}",
            summarize(read_evidence(results[name])),
        )
        for name, one in paths.items()
    ]
    words = (
        "Observations come in one at a time, in the order of the data. A line that rises says that "
        "the data so far speaks for that model; the largest steps are named. It was made by a run "
        "of its own; where its log Z and that of the result differ, it is a rough guide only:"
    )
    columns = ["model", "log Z by observation", "log Z of the result"]
    return f"{title}{drawn}{paragraph(words)}{table(columns, rows, numbers=(1, 2))}"


def _prior_section(
    made: ComparisonTable, results: Mapping[str, Any], models: Mapping[str, pm.Model]
) -> str:
    """Return how log Z changes with the scale of each prior that depends on no other variable."""
    rows, left_out = [], []
    for name in map(str, made.index):
        if name not in models or not has_group(results[name], "arm"):
            left_out.append(name)
            continue
        free = models[name].free_RVs
        outermost = [rv for rv in free if not set(ancestors([rv])) & (set(free) - {rv})]
        for rv in outermost[:MOST_PRIORS]:
            try:
                found = sensitivity(results[name], models[name], {rv.name: list(SCALES)})
            except Exception:  # a prior without a scale, draws that are not those of the variable
                left_out.append(f"{rv.name} of {name}")
                continue
            told = [
                summarize(Evidence(row["difference"], row["difference_se"], math.inf))
                if row["reliable"]
                else "needs a new run"
                for _, row in found.iterrows()
            ]
            rows.append((name, rv.name, *told))
    if not models or not (rows or left_out):
        return ""
    words = (
        "How log Z of a model, and with it the log of each of its Bayes factors, changes with the "
        "scale of a prior, found by weighing draws anew. Priors are part of a model: where such a "
        "change would turn the conclusion, say so."
    )
    columns = ["model", "variable", "half as wide", "twice as wide"]
    parts = ["<h2>Does it depend on the priors?</h2>", paragraph(words)]
    if rows:
        parts.append(table(columns, rows, numbers=(2, 3)))
    if left_out:
        parts.append(paragraph(f"Not weighed anew: {', '.join(left_out)}."))
    return "\n".join(parts)


def _certainty(made: ComparisonTable, results: Mapping[str, Any]) -> str:
    rows, verdicts = [], []
    for name in map(str, made.index):
        result, attributes = results[name], read_attributes(results[name])
        evidence = read_evidence(result)
        low, high = evidence.interval()
        verdict = diagnose(result) if has_group(result, "arm") else None
        effective = attributes.get("ess", np.nan) if verdict is None else verdict.effective_draws
        rows.append(
            (
                name,
                summarize(evidence),
                f"{low:.3f} to {high:.3f}",
                ESTIMATES.get(str(attributes.get("estimate")), ""),
                f"{attributes.get('chains', '')} x {attributes.get('draws', '')}".strip(" x"),
                _number(attributes.get("r_hat", np.nan), ".3f"),
                _number(effective, ".0f"),
                _number(read_seconds(result), ".1f"),
            )
        )
        if verdict is not None:
            verdicts.append(f"<h3>{escape(name)}</h3>{verdict._repr_html_()}")
    columns = ["model", "log Z", "95 % interval", "estimate", "chains x draws", "R-hat"]
    return "\n".join(
        [
            "<h2>How sure is this?</h2>",
            table(
                [*columns, "effective draws", "seconds in chains"], rows, numbers=(1, 2, 5, 6, 7)
            ),
            paragraph(
                "A mode that no run has seen leaves no trace in any of these numbers, and log Z "
                "depends on the priors as much as on the data."
            ),
            *verdicts,
        ]
    )


def _nested_section(agreements: Mapping[str, Agreement]) -> str:
    """Return whether another way to the Bayes factors of nested models agrees."""
    if not agreements:
        return ""
    rows = []
    for name, one in agreements.items():
        logs = [
            summarize(Evidence(factor.log, factor.standard_error, factor.degrees_of_freedom))
            for factor in (one.by_log_z, one.by_density)
        ]
        rows.append((name, one.by_log_z.second, *logs, one.word))
    columns = ["nested model", "larger model", "log Bayes factor by log Z", "by Savage-Dickey"]
    words = (
        "The Bayes factor of a nested model against the larger one is also the posterior density "
        "of what it fixes over the prior density, at that point (Savage and Dickey). This needs "
        "draws of the larger model only, and neither log Z."
    )
    good = all(one.agrees for one in agreements.values())
    return "\n".join(
        [
            "<h3>Does another method agree?</h3>",
            box(
                paragraph(words),
                table([*columns, "which"], rows, numbers=(2, 3)),
                status="ok" if good else "caution",
            ),
        ]
    )


def _number(value: float, digits: str) -> str:
    return "" if np.isnan(value) else format(value, digits)


def _runs(made: ComparisonTable, results: Mapping[str, Any], models: Mapping[str, pm.Model]) -> str:
    sections = []
    for name in map(str, made.index):
        parts: list[str] = []
        if name in models:
            steps = plan(models[name])
            parts += [f"<pre>{escape(models[name].str_repr())}</pre>", steps._repr_html_()]
            if isinstance(steps, Plan):
                size = (8.0, 1.4 + 0.45 * min(len(set(steps.term_names)), 30))
                parts.append(picture("What comes in when", size, plots.plot_plan, steps))
        found = results[name]
        # A model without parameters has no steps to draw.
        if has_group(found, "arm") and get_group(found, "arm").sizes["step"]:
            parts.append(picture("The steps of the run", (7, 7), plots.plot_run, found, RATIOS))
            parts.append(picture("log Z of each chain", (7, 3.5), plots.plot_estimates, found))
        if parts:
            opening = f"<details><summary>{escape(name)}</summary>"
            sections.append("\n".join([opening, *parts, "</details>"]))
    return "\n".join(["<h2>Models and runs</h2>", *sections]) if sections else ""


def _reproduction(models: Mapping[str, pm.Model], keywords: Mapping[str, Any]) -> str:
    from pymc_arm import __version__

    rows = [("Python", platform.python_version()), ("pymc_arm", __version__)]
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            rows.append((package, version(package)))
    words = "All models were given as results, which know their own settings."
    if models:
        given = ", ".join(f"{name}={value!r}" for name, value in keywords.items())
        words = f"Models were run by pymc_arm.report(models, file, {given})."
    title = "<h2>To do it again</h2>"
    return f"{title}{paragraph(words)}{table(['package', 'version'], rows)}"
