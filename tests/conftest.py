"""The end of a run says how many tests of each group there were, and how long they took."""

GROUPS = ("statistical", "slow", "data")


def pytest_terminal_summary(terminalreporter):
    seconds = dict.fromkeys(("fast", *GROUPS), 0.0)
    counts = dict.fromkeys(seconds, 0)
    # Reports of fixtures have no category.
    for category in ("", "passed", "failed"):
        for report in terminalreporter.getreports(category):
            for group in [name for name in GROUPS if name in report.keywords] or ["fast"]:
                seconds[group] += report.duration
                counts[group] += report.when == "call"
    groups = [f"{name} {counts[name]} in {seconds[name]:.0f} s" for name in seconds]
    terminalreporter.write_line(f"tests by group, all workers together: {', '.join(groups)}")
