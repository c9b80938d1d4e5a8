"""Write a reference page per package from the source, which is read and not imported: python docs/python_api.py"""

from __future__ import annotations

import inspect
import io
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

from griffe import (
    Alias,
    AliasResolutionError,
    Attribute,
    Class,
    ExprDict,
    Function,
    Module,
    Object,
    ParameterKind,
    load,
)

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TARGET = ROOT / "docs" / "reference"
REPOSITORY = "https://github.com/clearhead/clearhead/blob/main"
LINE_LENGTH = 88  # of a signature
MAX_VALUE = 70  # characters of a constant that are shown
ADAPTERS = {  # public modules of packages that import nothing themselves
    "integrations.sentence_transformers": ("accelerate",),
    "integrations.transformers": ("accelerate",),
    "integrations.transformers.attention": ("attention",),
    "integrations.sklearn": ("ClearheadClassifier", "ClearheadVectorizer"),
    "integrations.mteb": ("MtebEncoder",),
}
TORCH_METHODS = ("forward", "extra_repr")  # torch.nn.Module's own: the class says what they compute
VARIADIC = {ParameterKind.var_positional: "*", ParameterKind.var_keyword: "**"}


@cache
def package() -> Module:
    """The source of clearhead, with what every name refers to."""
    found = load("clearhead", search_paths=[str(SOURCE)], resolve_aliases=True)
    assert isinstance(found, Module)
    return found


def public_packages() -> dict[str, list[str]]:
    """The public names of each package, in alphabetical order without regard to case."""
    names = {"": [str(name) for name in package().exports or ()]}
    for path in sorted((SOURCE / "clearhead").glob("*/__init__.py")):
        module = package()[path.parent.name]
        if path.parent.name not in ("cli", "studies") and module.exports:  # these are commands
            names[path.parent.name] = [str(name) for name in module.exports]
    names |= {name: list(listed) for name, listed in ADAPTERS.items()}
    return {name: sorted(listed, key=lambda n: (n.lower(), n)) for name, listed in names.items()}


def find(module: str, name: str) -> Object:
    """The definition of a public name."""
    place = package()[module] if module else package()
    found = place[name]
    found = found.final_target if isinstance(found, Alias) else found
    return found[name] if isinstance(found, Module) else found  # a function with the name of its file


def text_of(found: Object) -> str:
    """The docstring; of a method without one, that of the base class; of a field, the comment behind it."""
    if found.docstring is not None:
        return inspect.cleandoc(found.docstring.value)
    if isinstance(found, Attribute) and isinstance(found.parent, Class):
        return comment_of(found)
    if isinstance(found, Function) and isinstance(found.parent, Class):
        for base in bases_of(found.parent):
            inherited = base.members.get(found.name)
            if isinstance(inherited, Function) and inherited.docstring is not None:
                return inspect.cleandoc(inherited.docstring.value)
    return ""


def bases_of(found: Class) -> list[Class]:
    """The base classes that clearhead defines, nearest first."""
    try:
        return [base.final_target if isinstance(base, Alias) else base for base in found.mro()]
    except (ValueError, AliasResolutionError):
        return []


def comment_of(found: Attribute) -> str:
    """The comment behind the definition of a field."""
    path = found.filepath
    assert isinstance(path, Path)
    lines = comments(path)
    first, last = found.lineno or 0, found.endlineno or 0
    return next((lines[number] for number in range(last, first - 1, -1) if number in lines), "")


@cache
def comments(path: Path) -> dict[int, str]:
    """The comments of a file that follow code on their line."""
    read = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in read
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip() and "fmt:" not in token.string
    }


def signature(found: Function | Class, name: str) -> str:
    """A call with its types and defaults, on one line if it is short."""
    parts, starred = [], False
    for parameter in found.parameters:
        if parameter.name in ("self", "cls") and not parts:
            continue
        if parameter.kind is ParameterKind.keyword_only and not starred:
            parts, starred = [*parts, "*"], True
        starred = starred or parameter.kind is ParameterKind.var_positional
        text = VARIADIC.get(parameter.kind, "") + parameter.name
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and parameter.kind not in VARIADIC:
            default = default_of(found, str(parameter.default))
            text += f" = {default}" if parameter.annotation is not None else f"={default}"
        parts.append(text)
    returns = getattr(found, "returns", None) if isinstance(found, Function) else None
    arrow = "" if returns is None else f" -> {returns}"
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= LINE_LENGTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"


def default_of(found: Object, value: str) -> str:
    """The text of a default, in which a private constant of the module is its value."""
    constant = found.module.members.get(value) if value.startswith("_") else None
    value = str(constant.value) if isinstance(constant, Attribute) else value
    return value if '"' in value else value.replace("'", '"')


def code(text: str) -> str:
    return f"```py\n{text}\n```"


def cell(text: str) -> str:
    """A text in one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def value_of(found: Attribute) -> str:
    """The value of a constant, if it is short and no call."""
    value = str(found.value).replace("'", '"')
    return value if len(value) <= MAX_VALUE and "\n" not in value and not value.endswith("()") else ""


def keys_of(found: Attribute) -> list[str]:
    """The keys of a constant that is a dictionary of literals."""
    keys = found.value.keys if isinstance(found.value, ExprDict) and not value_of(found) else []
    return [str(key).strip("'\"") for key in keys]


def fields_of(found: Class) -> list[Attribute]:
    """The fields of a data class, with those that it inherits."""
    kinds = [found, *bases_of(found)]
    if not any("dataclass" in kind.labels or "NamedTuple" in map(str, kind.bases) for kind in kinds):
        return []
    listed: dict[str, Attribute] = {}
    for kind in reversed(kinds):
        for name, member in kind.members.items():
            if not isinstance(member, Attribute) or name.startswith("_") or "property" in member.labels:
                continue
            if member.annotation is not None and not str(member.annotation).startswith("ClassVar"):
                listed[name] = member
    return list(listed.values())


def methods_of(found: Class) -> list[Function | Attribute]:
    """The public methods and properties that a class defines, in the order of its source."""
    listed = []
    for name, member in found.members.items():
        if name.startswith("_") or name in TORCH_METHODS:
            continue
        is_property = isinstance(member, Attribute) and "property" in member.labels
        if isinstance(member, Function) or is_property:
            listed.append(member)
    return listed


def class_entry(found: Class) -> list[str]:
    name = found.name
    bases = [str(base).rpartition(".")[2] for base in found.bases]
    shown = [b for b in bases if not b.startswith(("object", "Generic", "Protocol"))]
    parts = [code(f"class {signature(found, name)}"), text_of(found)]
    if shown:
        parts.append("Base: " + ", ".join(f"`{base}`" for base in shown))
    if fields := fields_of(found):
        rows = [
            f"| `{f.name}` | `{cell(str(f.annotation))}` | {f'`{cell(str(f.value))}`' if f.value is not None else 'required'} "
            f"| {cell(text_of(f))} |"
            for f in fields
        ]
        parts.append("\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows]))
    for member in methods_of(found):
        if text_of(member):
            parts += [f"#### {name}.{member.name}", code(member_signature(found, member)), text_of(member)]
    if rest := [member for member in methods_of(found) if not text_of(member)]:
        parts += ["Also:", code("\n".join(member_signature(found, member) for member in rest))]
    return parts


def member_signature(found: Class, member: Function | Attribute) -> str:
    """The call of a method with its overloads, or the type of a property."""
    if isinstance(member, Attribute):
        return f"{member.name}: {member.annotation}"
    return "\n".join(signature(each, member.name) for each in found.overloads.get(member.name) or [member])


def entry(module: str, name: str) -> str:
    """The section of a public name."""
    found = find(module, name)
    parts = [f"## {name}"]
    if isinstance(found, Class):
        parts += class_entry(found)
    elif isinstance(found, Function):
        parts += [code("\n".join(signature(each, name) for each in found.overloads or [found])), text_of(found)]
    else:
        assert isinstance(found, Attribute)
        annotation = f": {found.annotation}" if found.annotation is not None else ""
        value = f" = {value_of(found)}" if value_of(found) else ""
        keys = ", ".join(f"`{key}`" for key in keys_of(found))
        parts += [code(f"{name}{annotation}{value}"), text_of(found), f"Keys: {keys}." if keys else ""]
    path = Path(str(found.filepath)).relative_to(ROOT).as_posix()
    parts.append(f"Source: [{path}]({REPOSITORY}/{path})")
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(module: str, name: str) -> str:
    """The first sentence about a public name."""
    first = text_of(find(module, name)).partition("\n\n")[0]
    return cell(first)


def page_name(module: str) -> str:
    return (module.replace(".", "_") or "clearhead") + ".md"


def anchors(names: list[str]) -> dict[str, str]:
    """The anchor of each section of a page: a repeated one is numbered."""
    seen: Counter[str] = Counter()
    found = {}
    for name in names:
        slug = name.lower()
        found[name] = f"{slug}_{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1
    return found


def page(module: str, names: list[str]) -> str:
    """The reference of a package; names of another package are links to it."""
    title = ".".join(filter(None, ("clearhead", module)))
    place = package()[module] if module else package()
    packages, links, own = public_packages(), anchors(names), []
    rows = ["| name | what it is |", "|---|---|"]
    for name in names:
        home = module or find(module, name).path.split(".")[1]
        if home != module and name in packages.get(home, ()):
            target = f"{page_name(home)}#{anchors(packages[home])[name]}"
        else:
            target = f"#{links[name]}"
            own.append(name)
        rows.append(f"| [`{name}`]({target}) | {summary(module, name)} |")
    intro = text_of(place)
    parts = [f"# {title}\n", f"{intro}\n", "\n".join(rows) + "\n", *(entry(module, name) for name in own)]
    return re.sub(r"[ \t]+\n", "\n", "\n".join(parts))


def pages() -> dict[str, str]:
    """The text of every page, by file name."""
    return {page_name(module): page(module, names) for module, names in public_packages().items()}


def undocumented() -> list[str]:
    """The public names without a docstring."""
    listed = (find(module, name) for module, names in public_packages().items() for name in names)
    return sorted({found.path for found in listed if not text_of(found)})


if __name__ == "__main__":
    for name, text in pages().items():
        (TARGET / name).write_text(text, encoding="utf-8")
