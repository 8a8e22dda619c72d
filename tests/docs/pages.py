"""The project's pages: every Markdown file of the repository, and where each generated section stands."""

from tests.parts import CHECKOUT

FOLDERS = ("algorithms", "deploy", "papers", "streamjobs", "tests")
SECTION_IN = {  # generated section -> the page beside the code it describes
    "commands": "streamjobs/commands/README.md",
    "settings": "streamjobs/settings/README.md",
    "learners": "algorithms/reference.md",
    "topics": "streamjobs/core/README.md",
    "metrics": "deploy/metrics.md",
}


def pages() -> dict[str, str]:
    """Text of every page by its path in the repository."""
    paths = [*CHECKOUT.glob("*.md"), *(path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.md"))]
    return {path.relative_to(CHECKOUT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}
