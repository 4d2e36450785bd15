"""config, errors, files, draws."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from bertlite.config import differences, flatten, from_dict, to_dict
from bertlite.draws import Purpose, stream, torch_seed
from bertlite.errors import InputError
from bertlite.files import atomic_folder, atomic_path, folder_lock, read_json, remove_partials, write_json


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outer:
    out: Path
    mode: Literal["a", "b"] = "a"
    steps: int | None = None
    inner: Inner = field(default_factory=Inner)


def test_settings_survive_json():
    settings = Outer(out=Path("x"), mode="b", steps=3, inner=Inner(rate=1.0, names=("p", "q")))
    assert from_dict(Outer, json.loads(json.dumps(to_dict(settings)))) == settings


def test_dotted_and_nested_names_say_the_same():
    assert from_dict(Outer, {"out": "x", "inner.rate": 2}) == from_dict(Outer, {"out": "x", "inner": {"rate": 2.0}})


@pytest.mark.parametrize(("values", "words"), [
    ({"out": "x", "stesp": 1}, "did you mean steps"),
    ({"out": "x", "mode": "c"}, "one of a, b"),
    ({"out": "x", "steps": "many"}, "steps must be int"),
    ({"out": "x", "steps": True}, "steps must be int"),
    ({"mode": "a"}, "'out' is missing"),
    ({"out": "x", "inner": {"rates": 1}}, "did you mean rate"),
])
def test_a_wrong_setting_is_named(values, words):
    with pytest.raises(InputError, match=words):
        from_dict(Outer, values)


def test_differences_name_the_dotted_setting():
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}) == {"a.c": (2, 3)}
    assert flatten({"a": {"b": {"c": 1}}}) == {"a.b.c": 1}


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "a.json") as partial:
        partial.write_text("half")
        raise RuntimeError
    assert read_json(tmp_path / "a.json") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_an_interrupted_folder_is_not_there(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "folder") as partial:
        (partial / "file").write_text("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_folder_is_replaced_whole(tmp_path):
    for text in ("one", "two"):
        with atomic_folder(tmp_path / "folder") as partial:
            (partial / text).write_text(text)
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["two"]


def test_partials_of_a_killed_writer_are_removed(tmp_path):
    (tmp_path / ".x.1.partial").mkdir()
    (tmp_path / ".y.1.partial").write_text("")
    (tmp_path / "kept").write_text("")
    remove_partials(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_two_writers_do_not_share_a_folder(tmp_path):
    with folder_lock(tmp_path), pytest.raises(InputError, match="another run is writing here"), folder_lock(tmp_path):
        pass
    with folder_lock(tmp_path):
        pass


@pytest.mark.parametrize("text", ["{", "\xff", ""])
def test_malformed_json_is_named(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.json"):
        read_json(tmp_path / "a.json")


def test_a_stream_is_a_function_of_its_place():
    draw = stream(1, Purpose.MASK, 128, 2, 3, 4).random(8)
    np.testing.assert_array_equal(draw, stream(1, Purpose.MASK, 128, 2, 3, 4).random(8))
    others = [stream(2, Purpose.MASK, 128, 2, 3, 4), stream(1, Purpose.PAIR, 128, 2, 3, 4), stream(1, Purpose.MASK, 128, 2, 3, 5),
              stream(1, Purpose.MASK, 128, 2, 3), stream(1, Purpose.MASK, 128, 2, 4, 3)]
    assert all(not np.array_equal(draw, other.random(8)) for other in others)
    assert torch_seed(1, Purpose.DROPOUT, 1) != torch_seed(1, Purpose.DROPOUT, 2)
