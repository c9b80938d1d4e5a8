import pytest

from clearhead.viz import Heatmap, draw_heatmaps

MAP = Heatmap("additive", [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]], ["1998", "$05"], ["May", "3", "1998"])


def test_cells_and_labels_of_each_map():
    figure = draw_heatmaps([MAP, MAP], "Alignments")
    assert len(figure.axes) == 2
    for axes in figure.axes:
        (mesh,) = axes.collections
        cells = mesh.get_array()
        assert cells is not None
        assert cells.tolist() == [list(row) for row in MAP.weights]
        assert mesh.get_clim() == (0.0, 1.0)
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["May", "3", "1998"]
        assert [tick.get_text() for tick in axes.get_yticklabels()] == ["1998", r"\$05"]
        assert axes.yaxis_inverted()  # the first query is at the top
        assert axes.get_title("left") == "additive"


def test_wrong_number_of_labels_is_refused():
    with pytest.raises(ValueError, match="2 x 3 weights need as many labels, but there are 2 queries and 2 keys"):
        Heatmap("", MAP.weights, MAP.queries, ["May", "3"])
