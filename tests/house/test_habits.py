"""The habits of the repository: workflows call targets that exist, and one version is named everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import clearhead

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
STEPS = [*WORKFLOWS, *sorted((ROOT / ".github" / "actions").glob("*/action.yml"))]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> list[dict[str, Any]]:
    """The steps of all jobs of a workflow, or those of a composite action."""
    content = read(path)
    groups = [content["runs"]] if "runs" in content else content["jobs"].values()
    return [step for group in groups for step in group["steps"]]


def made(text: str) -> set[str]:
    """The targets of all `make` commands in a shell script."""
    calls = re.findall(r"^\s*(?:exec\s+)?make((?:[ \t]+\S+)+)", text, re.M)
    return {word for call in calls for word in call.split() if "=" not in word}


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def test_all_workflows_are_there():
    assert [path.stem for path in WORKFLOWS] == ["checks", "nightly", "release", "tests"]


@pytest.mark.parametrize("path", STEPS, ids=lambda path: path.stem)
def test_workflows_call_existing_targets(path):
    called = set().union(*(made(step.get("run", "")) for step in steps(path)))
    assert called
    assert called <= targets()


def test_ci_calls_existing_targets():
    assert made((ROOT / ".ci" / "run").read_text(encoding="utf-8")) <= targets()
    assert made("exec make test\nmake web WORKERS=2") == {"test", "web"}


def test_contributing_lists_all_targets():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\$ make (\w+)", text, re.M)) == targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_have_limits(path):
    """Read-only by default, one run per branch, a time limit; write access only to publish."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 360
        assert job.get("permissions", {}) == ({"id-token": "write"} if name == "publish" else {})


@pytest.mark.parametrize("path", STEPS, ids=lambda path: path.stem)
def test_actions_are_pinned(path):
    for step in steps(path):
        used = step.get("uses", "./")
        assert used.startswith("./") or re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", used), used


def test_tests_run_on_the_declared_python_versions():
    prefix = "Programming Language :: Python :: "
    declared = {c.removeprefix(prefix) for c in PROJECT["classifiers"] if re.fullmatch(prefix + r"3\.\d+", c)}
    matrix = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert set(matrix) == declared
    oldest = min(declared, key=lambda version: int(version.partition(".")[2]))
    assert PROJECT["requires-python"] == f">={oldest}"


def test_one_version_everywhere():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d[^\]]*)\] - (\d{4}-\d\d-\d\d)$", changelog, re.M)
    citation = read(ROOT / "CITATION.cff")
    assert released[0] == (citation["version"], str(citation["date-released"]))
    assert citation["version"] == clearhead.__version__
    assert released == sorted(released, key=lambda entry: entry[1], reverse=True)


def test_package_page_has_absolute_links(monkeypatch):
    """No link of the README is relative on the package page; code is unchanged, and every linked file exists."""
    monkeypatch.syspath_prepend(ROOT)
    from hatch_build import REPOSITORY, absolute_links

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = absolute_links(readme, "v1")
    prose = re.sub(r"^```.*?^```", "", page, flags=re.S | re.M)
    links = re.findall(r"\]\(([^)]+)\)", prose) + re.findall(r"(?:src|href)=\"([^\"]+)\"", prose)
    assert [link for link in links if not link.startswith(("https://", "http://", "#"))] == []
    ours = [
        link.partition("/v1/")[2].partition("#")[0] for link in links if link.startswith(REPOSITORY) and "/v1/" in link
    ]
    assert len(ours) > 10
    assert [path for path in ours if not (ROOT / path).exists()] == []
    assert absolute_links("[a](b.md#c) ![d](e.png)\n```\nf[g](h)\n```\n", "v1") == (
        f"[a]({REPOSITORY}/blob/v1/b.md#c) ![d]({REPOSITORY}/raw/v1/e.png)\n```\nf[g](h)\n```\n"
    )
