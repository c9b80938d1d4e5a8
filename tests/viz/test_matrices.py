"""A matrix is drawn with every number in its cell, and its labels."""

import pytest

from clearhead.viz import draw_matrix

pytest.importorskip("matplotlib")


def texts(figure):
    (axes,) = figure.axes
    return {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text() for t in axes.texts}


def test_every_number_is_in_its_cell():
    figure = draw_matrix([[0.25, 0.5, 1.0], [0.0, 0.125, 0.75]], ["a", "b"], ["x", "y", "z"], "title")
    assert texts(figure) == {
        (0, 0): "0.25", (1, 0): "0.50", (2, 0): "1.00", (0, 1): "0.00", (1, 1): "0.12", (2, 1): "0.75",
    }  # fmt: skip
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y", "z"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert figure.get_suptitle() == "title"


def test_digits_are_chosen():
    assert texts(draw_matrix([[12.6]], ["a"], ["x"], "title", digits=0)) == {(0, 0): "13"}


@pytest.mark.parametrize(("values", "lowest"), [([[0.5, 2.0]], 0.0), ([[-0.5, 2.0]], -2.0)])
def test_zero_is_the_end_or_the_middle_of_the_colors(values, lowest):
    """With negative values the scale is symmetric, so that 0 has the middle color."""
    (image,) = draw_matrix(values, ["a"], ["x", "y"], "title").axes[0].get_images()
    assert image.get_clim() == (lowest, 2.0)


def test_numbers_are_readable_on_dark_cells():
    figure = draw_matrix([[0.1, 1.0]], ["a"], ["x", "y"], "title")
    colors = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert colors["1.00"] == "white" and colors["0.10"] != "white"


def test_dollar_signs_of_tokens_are_no_formulas():
    figure = draw_matrix([[1.0, 0.0]], ["$a"], ["$", "b$"], "title")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [r"\$", r"b\$"]


@pytest.mark.parametrize(("rows", "columns"), [(["a"], ["x", "y"]), (["a", "b"], ["x"]), ([], ["x", "y"])])
def test_labels_that_do_not_fit_are_refused(rows, columns):
    with pytest.raises(ValueError, match="2 x 2 values need as many labels"):
        draw_matrix([[1, 2], [3, 4]], rows, columns, "title")
