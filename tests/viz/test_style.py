import sys

import pytest

from clearhead.viz import Curve, Heatmap, Panel, draw_curves, draw_heatmaps, save


def figures():
    curves = [Curve("a", [1, 2], [1.0, 2.0], [0.5, 1.5], [1.5, 2.5]), Curve("b", range(30), range(30))]
    yield draw_curves([Panel(curves, "x", "y")], "Curves")
    yield draw_heatmaps([Heatmap("m", [[0.1, 0.9]], ["w"], ["r", "s"])], "Map")


def test_the_same_bytes_from_the_same_numbers(tmp_path):
    for place, (once, again) in enumerate(zip(figures(), figures(), strict=True)):
        paths = save(once, tmp_path / f"once-{place}"), save(again, tmp_path / f"again-{place}")
        for first, second in zip(*paths, strict=True):
            assert first.suffix == second.suffix and first.read_bytes() == second.read_bytes()


def test_both_kinds_are_written_and_tell_no_date(tmp_path):
    svg, png = save(next(figures()), tmp_path / "a.b")
    assert (svg.name, png.name) == ("a.b.svg", "a.b.png")
    assert b"<dc:date>" not in svg.read_bytes() and svg.read_bytes().startswith(b"<?xml")
    assert png.read_bytes().startswith(b"\x89PNG") and b"matplotlib" not in png.read_bytes()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"clearhead\[see\]"):
        draw_curves([Panel([Curve("a", [1], [1.0])], "x", "y")], "Curves")
