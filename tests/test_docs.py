"""The site builds with every link checked; README's links lead somewhere; what stands around the package fits together."""

import html
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import fedrl
from fedrl.experiments.papers import PAPERS

ROOT = Path(__file__).parents[1]
ELSEWHERE = re.compile(r'<(?:script|link|img|iframe|source)[^>]*(?:src|href|srcset)="(?:https?:)?//[^"]*"')
COLOURS = {"holds": "● holds", "fails": "● does not hold", "open": "● undecided"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    said = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stdout + said.stderr
    return folder


def nav(entry) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for inner in (entry.values() if isinstance(entry, dict) else entry) for page in nav(inner)]


def test_every_page_of_the_navigation_is_there():
    listed = nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert {page for page in listed if not (ROOT / "docs" / page).exists()} == set()


@pytest.mark.parametrize(
    "package",
    ["aggregation", "algorithms", "channels", "engines", "environments", "learners", "llm", "policies", "selection"],
)
def test_the_reference_has_every_name_of_the_flat_api(site, package):
    page = (site / "reference" / f"{package}.html").read_text()
    missing = [name for name in dir(getattr(fedrl, package)) if f'id="fedrl.{package}.{name}"' not in page]
    assert missing == []


def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text()
        assert ELSEWHERE.findall(text) == []
        assert 'class="mermaid"' not in text, "the theme fetches what draws these from a server"
    for sheet in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)", sheet.read_text()) == []


def test_the_picture_of_a_round_has_the_folders_in_its_boxes(site):
    drawn = set(re.findall(r"\b(\w+)/<", (site / "round.svg").read_text()))
    assert len(drawn) > 10
    assert {folder for folder in drawn if not (ROOT / "src" / "fedrl" / folder).is_dir()} == set()
    assert 'src="round.svg"' in (site / "walk.html").read_text()


def test_examples_are_shown_as_they_are(site):
    shown = re.sub(r"<[^>]+>", "", (site / "examples.html").read_text())
    for program in ("does_federating_pay", "lying_clients", "fednpg"):
        line = (ROOT / "examples" / f"{program}.py").read_text().splitlines()[0]
        assert f"{line}\n" in html.unescape(shown)
    assert "--8" not in shown


@pytest.mark.parametrize("page", ["", "/wang2024", "/xie2025", "/xu2024", "/labbi2025", "/fedagent"])
def test_verdicts_come_first_with_a_word_beside_each_colour(page):
    text = (ROOT / "docs" / f"reproductions{page}.md").read_text()
    first = text[: text.index("\n## ", text.index("\n| --- |"))]
    assert re.search(r'<span class="(holds|fails|open)">', first)
    lights = re.findall(r'<span class="(\w+)">([^<]*)</span>', text)
    assert len(lights) >= (40 if not page else 3)
    assert all(words == COLOURS[colour] for colour, words in lights)
    if page:
        assert text.index("## All claims") == text.index("## "), "the table of all claims is the page's first section"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_site_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text):
        if not link.startswith("https://"):
            assert (ROOT / link).exists(), link


def test_workflows_and_hooks_call_what_there_is():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    called = {}
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            runs = [step["run"] for step in job["steps"] if "run" in step]
            words = [run.removeprefix("make ") for run in runs]
            matrix = job.get("strategy", {}).get("matrix", {}).get("target", [])
            called[path.stem] = {it for word in words for it in (matrix if "matrix.target" in word else [word])}
    assert called == {"ci": {"check", "test-fast"}, "nightly": {"test", "test-network", "mutants", "test-wheel"}}
    assert called["ci"] | called["nightly"] <= targets
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["id"] for repo in hooks for hook in repo["hooks"]] == ["ruff", "ruff-format"]
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert {"name", "description", "body"} <= set(yaml.safe_load(path.read_text()))


def test_one_version_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    assert citation["cff-version"] == "1.2.0"
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_citation_file_and_the_bibtex_name_the_same_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["authors"] == [{"name": "The fedrl developers"}]
    cited = [
        (paper["title"], " and ".join(f"{who['given-names']} {who['family-names']}" for who in paper["authors"]))
        for paper in citation["references"]
    ]
    ours = [PAPERS[key] for key in ("wang2024", "xu2024", "labbi2025", "xie2025", "fedagent")]
    assert cited == [(paper.title, paper.authors) for paper in ours]
    assert [(paper["year"], paper["url"]) for paper in citation["references"]] == [(it.year, it.link) for it in ours]
