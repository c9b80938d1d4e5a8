"""The rules of the house: who may import whom, and what a minimal install must carry."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "clearhead"

# From the bottom up: a package imports only what stands before it, and nothing of its own row.
ORDER = [
    {"files"},
    {"attention"},
    {"efficient"},
    {"layers"},
    {"text", "vision", "metrics"},
    {"models"},
    {"cards"},
    {"hub"},
    {"export"},
    {"integrations.transformers"},
    {"data"},
    {"corpus"},
    {"decode"},
    {"tasks"},
    {"distributed"},
    {"train"},
    {"plan"},
    {"analysis"},
    {"viz"},
    {"image_text", "pipeline"},
    {"integrations"},  # what adapts whole pipelines to other libraries
    {"audit"},
    {"search"},
    {"serve"},
    {"studies"},
    {"cli"},
]
RANK = {name: i for i, names in enumerate(ORDER) for name in names}


def room(module: str) -> str:
    """The package that a module belongs to, without `clearhead`."""
    parts = module.split(".")[1:]
    return "integrations.transformers" if parts[:2] == ["integrations", "transformers"] else parts[0]


MODULES = {
    ".".join(("clearhead", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): p
    for p in SOURCE.rglob("*.py")
}


def imports(path: Path, *, top_only: bool = False) -> set[str]:
    """The clearhead modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_only else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            base = node.module or ""
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in node.names}
    return {name for name in found if name == "clearhead" or name.startswith("clearhead.")}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module):
    parts = module.split(".")
    if len(parts) == 1:
        return  # the package itself re-exports
    here = room(module)
    assert here in RANK, f"{module}: {here} has no place in the house"
    for name in imports(MODULES[module]):
        if name == "clearhead":
            assert here == "cli", f"{module} imports the package that re-exports it"
        elif room(name) != here:
            assert RANK[room(name)] < RANK[here], f"{module} imports {name}, which stands above it"


def test_no_cycles():
    graph = {m: {n for n in imports(p, top_only=True) if n in MODULES and n != m} for m, p in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module not in done:
            for name in graph[module]:
                if not module.startswith(name + "."):  # a package is there before its parts
                    visit(name, (*trail, module))
            done.add(module)

    for module in graph:
        if MODULES[module].name != "__init__.py":
            visit(module, ())


ON_FIRST_USE = (SOURCE, SOURCE / "integrations" / "transformers")  # packages that import their names on first use


def test_init_files_only_re_export():
    for path in SOURCE.rglob("__init__.py"):
        if path.parent.name in ("kernels", "families") or path.parent in ON_FIRST_USE:
            continue  # the dict of them lives there, as the reader expects
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            plain = isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr))
            assert plain, f"{path} holds more than re-exports"


def test_no_word_for_leftovers():
    for path in SOURCE.rglob("*.py"):
        assert path.stem not in {"utils", "helpers", "common", "misc"}


NEED_THEIR_LIBRARY = (  # they name its types: routes of FastAPI, models and interfaces of transformers
    "clearhead.serve.",
    "clearhead.integrations.mteb",
    "clearhead.integrations.sentence_transformers",
    "clearhead.integrations.sklearn",
    "clearhead.integrations.transformers.attention",
    "clearhead.integrations.transformers.packing",
)


def test_every_module_imports_with_the_minimal_install():
    """With everything blocked that the base install does not bring, every module still imports, but those;
    the command says what it needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        r.partition("[")[0].partition(">")[0]
        for group in project["optional-dependencies"].values()
        for r in group
        if not r.startswith("clearhead")
    }
    blocked = {n.replace("-", "_") for n in extras} | {"transformers", "matplotlib", "fastapi", "ray", "torchvision"}
    blocked -= {"zstandard"}  # torch asks whether it is there, and does not expect an error
    code = f"""
import importlib, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {blocked!r}:
            raise ModuleNotFoundError(f'{{name}} is not in the base install')
sys.meta_path.insert(0, Block())
for module in {sorted(m for m in MODULES if not m.startswith(NEED_THEIR_LIBRARY))!r}:
    importlib.import_module(module)
from clearhead.cli import app
try:
    app(["serve", "folder"])
except SystemExit as end:
    assert end.code == 2
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'clearhead[serve]'" in done.stderr


def test_importing_is_light():
    """`import clearhead` does not import torch, and its public names import nothing heavy besides."""
    heavy = "print([m for m in ('rich', 'typer', 'torch._dynamo', 'torch._inductor') if m in sys.modules])"
    code = f"import sys, clearhead; assert 'torch' not in sys.modules; from clearhead import *; {heavy}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_unpickles_or_evaluates():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name == "torch.load" and path == SOURCE / "hub" / "pickle_to_safetensors.py":
                    arguments = {k.arg: ast.unparse(k.value) for k in node.keywords}
                    assert arguments["weights_only"] == "True", "the one place that may unpickle takes tensors only"
                    continue
                assert name not in {"eval", "exec", "torch.load", "pickle.load", "pickle.loads"}, f"{path}: {name}"


def test_the_stable_names_are_documented():
    import clearhead
    from clearhead import attention, data, decode, files, layers, models, tasks, text, train, vision

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for package in (clearhead, files, attention, layers, text, vision, models, data, decode, tasks, train):
        missing = [name for name in package.__all__ if f"`{name}" not in page]
        assert not missing, f"{package.__name__}: {missing} not in docs/api.md"
        assert all(
            getattr(package, name).__doc__ or name.isupper() or name in ("Bias", "Columns", "Integers", "Tracker")
            for name in package.__all__
        )
