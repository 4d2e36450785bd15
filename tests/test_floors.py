"""Imports go down: a room imports from the rooms below it, and there is no cycle."""

import ast
from pathlib import Path

import bertlite

ROOT = Path(bertlite.__file__).parent
FLOORS = [{"config", "errors", "files", "draws"}, {"corpus"}, {"examples"}, {"inputs"}, {"model"}, {"formats", "objectives"},
          {"training"}, {"tasks"}, {"report"}, {"runs"}, {"demo"}, {"cli", "__main__"}]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bertlite"):
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("bertlite")}
    return names


def room(module: str) -> str:
    return (module.split(".") + [""])[1].removesuffix(".py")


def modules() -> dict[str, set[str]]:
    graph = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__init__":
            graph[".".join(("bertlite", *parts))] = imports(path)
    return graph


def test_a_file_imports_from_its_own_room_or_lower_ones():
    wrong = [(module, target) for module, targets in modules().items() for target in targets
             if room(target) and LEVEL[room(target)] > LEVEL[room(module)]]
    assert not wrong


def test_formats_and_objectives_do_not_know_each_other():
    between = {("formats", "objectives"), ("objectives", "formats")}
    assert not [(m, t) for m, targets in modules().items() for t in targets if (room(m), room(t)) in between]


def test_there_is_no_import_cycle():
    graph, seen = modules(), {}

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if seen.get(module):
            return
        for target in graph.get(module, ()):
            visit(target, (*path, module))
        seen[module] = True

    for module in graph:
        visit(module, ())


def test_corpus_and_examples_need_no_torch():
    code = [p for r in ("corpus", "examples") for p in (ROOT / r).rglob("*.py")]
    assert not [p for p in code if "import torch" in p.read_text(encoding="utf-8")]
