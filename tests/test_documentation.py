"""What the documentation shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documentation_pages import ROOT, WITH_A_BROKER, agrees, bare, commands_of, is_played, play, written_anew

PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
WITH_COMMANDS = [page for page in PAGES if page not in WITH_A_BROKER and commands_of((ROOT / page).read_text(encoding="utf-8"))]
FINDING = ("lahar diff",)
"""Commands that leave with 1 where they find something, as the page says."""
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page",
    # `make check-generated` plays those in docs/, too, and fails if they print anything else.
    [pytest.param(page, marks=[pytest.mark.slow] if page.startswith("docs/") else []) for page in WITH_COMMANDS],
)
def test_the_commands_of_a_page_do_what_it_shows(page: str, tmp_path: Path) -> None:
    for command in play((ROOT / page).read_text(encoding="utf-8"), tmp_path):
        place = f"{page}:{command.line}: {command.text}"
        printed = "\n".join(command.real)
        expected = 1 if command.text.startswith(FINDING) else 0
        assert command.code == expected, f"{place}\n{printed}"
        if command.output:
            assert agrees(command.output, command.real), (
                f"{place}\n{printed}\nis not what the page shows; `python tests/documentation_pages.py` writes it anew"
            )


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make_exist(page: str) -> None:
    """Those in blocks and those in the text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for command in commands_of(text) for name in re.findall(r"^make ([a-z-]+)", bare(command.text))}
    named |= set(re.findall(r"`make ([a-z-]+)`", text))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: its own, and those that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


def test_the_index_has_every_page() -> None:
    _, index = (ROOT / "README.md").read_text(encoding="utf-8").split("## Read next")
    pages = {page for page in PAGES if page.startswith("docs/")} | {"CONTRIBUTING.md"}
    assert set(re.findall(r"^\| [^|]+ \| \[[^]]+\]\(([^)]+)\)", index, re.MULTILINE)) == pages


@pytest.mark.parametrize("page", PAGES)
def test_links_into_a_page_find_their_anchor(page: str) -> None:
    path = ROOT / page
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
        linked = path.parent / target if target else path
        assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{page} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_rows_of_a_table_have_as_many_cells_as_its_head(page: str) -> None:
    """Markdown drops cells beyond the head's; a `|` in code begins a cell too, unless it is escaped."""
    cells = 0
    for line in FENCED.sub("", (ROOT / page).read_text(encoding="utf-8")).splitlines():
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (cells and found) or found == cells, f"{page}: {line}"
        cells = found


PAGE = """\
```console
$ printf 'a\\nb\\nc\\nd\\n'   # four letters
a
…
d
$ false
$ make test
$ kubectl get pods | head -c 9
```
and
```sh
x=1
echo $x
```
"""


def test_commands_run_in_one_shell_with_their_output_and_code(tmp_path: Path) -> None:
    letters, failed, watch, _, echo = play(PAGE, tmp_path)
    assert letters.real == ["a", "b", "c", "d"]
    assert (failed.code, echo.real) == (1, ["1"])
    assert watch.real == ['{"object"']
    assert [is_played(command) for command in commands_of(PAGE)] == [True, True, False, True, True, True]


@pytest.mark.parametrize(
    ("shown", "agree"),
    [
        (["a", "b", "c"], True),
        (["a", "b"], False),
        (["a", "…"], True),
        (["…", "c"], True),
        (["…"], True),
        (["b", "…"], False),
        (["a", "…", "b"], False),
        (["a", "b", "…", "c"], False),
    ],
)
def test_left_out_lines_stand_for_at_least_one(shown: list[str], agree: bool) -> None:
    assert agrees(shown, ["a", "b", "c"]) is agree


def test_a_page_is_written_anew_with_as_much_left_out_as_before(tmp_path: Path) -> None:
    old = PAGE.replace("\na\n…\nd\n", "\nx\n…\ny\n")
    assert written_anew(old, play(old, tmp_path)) == PAGE
