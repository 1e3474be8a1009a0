import dataclasses
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, canonical, decode, digest, plain, settings, unhashed


@settings
class Circle:
    type: Literal["circle"] = "circle"
    radius: float = 1.0


@settings
class Square:
    type: Literal["square"] = "square"
    side: float = 1.0


@settings
class Sketch:
    path: FilePath


@settings
class Drawing:
    shapes: tuple[Annotated[Circle | Square, Field(discriminator="type")], ...] = ()
    frame: Annotated[Circle | Square, Field(discriminator="type")] = Square()
    copies: int = 1
    threads: int = unhashed(4)


@settings
class Album:
    drawing: Drawing


def test_values_become_frozen_dataclasses() -> None:
    album = decode(Album, {"drawing": {"shapes": [{"type": "circle", "radius": "2e-3"}], "copies": 3}})
    assert album == Album(drawing=Drawing(shapes=(Circle(radius=0.002),), copies=3))
    with pytest.raises(AttributeError):
        album.drawing.copies = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "drawing: is missing; give it a value"),
        ({"drawing": {"copie": 2}}, "drawing.copie: unknown key 'copie'; did you mean 'copies'?"),
        ({"drawing": {"xyz": 2}}, "drawing.xyz: unknown key 'xyz'; known: copies, frame, shapes, threads"),
        (
            {"drawing": {"shapes": [{"type": "circel"}]}},
            "drawing.shapes.0: unknown type 'circel'; did you mean 'circle'?",
        ),
        ({"drawing": {"shapes": [{"radius": 1}]}}, "drawing.shapes.0.type: is missing; give it a value"),
        ({"drawin": {}}, "drawin: unknown key 'drawin'; did you mean 'drawing'?"),
        (
            {"drawing": {"shapes": [{"type": "circle"}, {"type": "square", "radius": 1}]}},
            "drawing.shapes.1.radius: unknown key 'radius'; known: side, type",
        ),
        (
            {"drawing": {"frame": {"type": "circle", "radius": "wide"}}},
            "drawing.frame.radius: must be a number (got 'wide'); correct the value",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(values: dict, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decode(Album, values)
    assert str(raised.value) == message
    assert raised.value.exit_status == 2


def test_the_digest_sees_what_decides_the_result_and_nothing_else() -> None:
    base = Drawing(shapes=(Circle(radius=1.0),))
    assert digest(base) == digest(Drawing(shapes=(Circle(radius=1.0),), threads=99))
    assert digest(base) != digest(Drawing(shapes=(Circle(radius=2.0),)))
    assert "threads" not in plain(base)


def test_a_value_at_its_default_is_left_out_at_any_depth() -> None:
    assert canonical(Album(drawing=Drawing())) == {"drawing": {}}
    assert canonical(Drawing(copies=1, frame=Square(side=1))) == {}
    assert canonical(Drawing(frame=Square(side=2.0))) == {"frame": {"type": "square", "side": 2.0}}
    assert canonical(Drawing(frame=Circle())) == {"frame": {"type": "circle"}}, "another member of the union"
    assert canonical(Drawing(shapes=(Square(),))) == {"shapes": [{"type": "square"}]}
    square = {"type": "square", "side": 1.0}
    assert plain(Album(drawing=Drawing())) == {"drawing": {"shapes": [], "frame": square, "copies": 1}}


def test_a_default_that_a_function_makes() -> None:
    @settings
    class Gallery:
        albums: dict[str, Album] = dataclasses.field(default_factory=lambda: {"first": Album(drawing=Drawing())})

    assert canonical(Gallery()) == canonical(Gallery(albums={"first": Album(drawing=Drawing(threads=9))})) == {}
    assert canonical(Gallery(albums={})) == {"albums": {}}


def test_two_types_with_equal_fields_have_two_digests() -> None:
    @settings
    class Disc:
        type: Literal["disc"] = "disc"
        radius: float = 1.0

    assert digest(Disc()) != digest(Circle())


@settings
class Easel:
    type: Literal["easel"] = "easel"
    legs: int = 3
    revision: ClassVar[int] = 2


@settings
class Studio:
    easel: Easel = Easel()
    frame: Annotated[Circle | Square, Field(discriminator="type")] = Square()


def test_a_hash_covers_the_revision_of_a_class_and_no_other_hash_changes() -> None:
    assert canonical(Easel()) == {"type": "easel", "revision": 2}
    assert canonical(Studio()) == {"easel": {"type": "easel", "revision": 2}}, "the default is revised, too"
    assert canonical(Studio(easel=Easel(legs=4)))["easel"] == {"type": "easel", "legs": 4, "revision": 2}
    assert plain(Studio())["easel"] == {"type": "easel", "legs": 3}
    assert digest(Square()) == digest({"type": "square"})


def test_a_revision_may_be_that_of_some_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Circle, "revision", property(lambda circle: int(circle.radius > 2)), raising=False)
    assert canonical(Drawing(frame=Circle(radius=2.0))) == {"frame": {"type": "circle", "radius": 2.0}}
    assert canonical(Drawing(frame=Circle(radius=3.0))) == {"frame": {"type": "circle", "radius": 3.0, "revision": 1}}


@pytest.mark.parametrize("name", ["a" * 256, "ж" * 128, f"folder/{'a' * 256}/file"])
def test_a_path_that_no_file_system_has_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="must have names of at most 255 bytes between slashes"):
        decode(Sketch, {"path": name})
    assert decode(Sketch, {"path": f"/{'a' * 255}/{'ж' * 127}"}).path.endswith("ж")
