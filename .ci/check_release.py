"""Check that a tag is that of the package, and print what the changelog says about it.

python3 .ci/check_release.py v0.2.0
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def check(tag: str) -> str:
    """Return the notes of a release; exit with what is wrong."""
    package = (ROOT / "pymc_arm" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    if version is None or tag != f"v{version.group(1)}":
        found = None if version is None else version.group(1)
        sys.exit(f"The tag is {tag}, and pymc_arm/__init__.py has version {found}.")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    if f"\nversion: {version.group(1)}\n" not in citation:
        sys.exit(f"CITATION.cff does not have version {version.group(1)}.")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## \[(.+?)\].*$", changelog, flags=re.MULTILINE)[1:]
    notes = dict(zip(sections[::2], sections[1::2], strict=True)).get(version.group(1), "").strip()
    if not notes:
        sys.exit(f"CHANGELOG.md has no section [{version.group(1)}].")
    return notes


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(check(sys.argv[1]))
