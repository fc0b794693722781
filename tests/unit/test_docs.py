"""The pages say what the code says: every reason is explained, every link leads somewhere."""

import re
from pathlib import Path

import pytest
import yaml

from leadsman.reasons import Reason

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples" / "README.md",
]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("reason", list(Reason))
def test_the_troubleshooting_page_explains_every_reason(reason):
    assert f"`{reason}`" in (ROOT / "docs" / "troubleshooting.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_between_pages_leads_to_a_file(page):
    broken = [
        target
        for target in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken


def test_the_readme_gives_the_two_commands_as_they_are_typed():
    text = (ROOT / "README.md").read_text()
    assert "$ make demo\n" in text
    assert "$ make test\n" in text


def test_the_smallest_pair_of_the_readme_is_the_one_that_is_tested():
    shown = re.search(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    example = list(yaml.safe_load_all((ROOT / "examples" / "smallest.yaml").read_text()))
    assert list(yaml.safe_load_all(shown[1])) == example
