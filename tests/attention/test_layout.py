import pytest
import torch

from clearhead.attention import Layout


def test_it_says_where_each_token_stands():
    layout = Layout.from_lengths([3, 0, 2], starts=[5, 7, 0])
    assert layout.offsets.tolist() == [0, 3, 3, 5]
    assert layout.positions.tolist() == [5, 6, 7, 0, 1]
    assert layout.sequence_ids.tolist() == [0, 0, 0, 2, 2]
    assert (layout.num_tokens, layout.num_sequences, layout.max_len, layout.end) == (5, 3, 3, 8)
    assert layout.rows(2) == slice(3, 5)
    assert layout.length is None


def test_equal_is_the_same_layout():
    one, two = Layout.uniform(3, 4), Layout.from_lengths([4, 4, 4])
    for name in ("offsets", "starts", "positions", "sequence_ids"):
        assert torch.equal(getattr(one, name), getattr(two, name))
    assert one.length == two.length == 4
    assert one.host_lengths == two.host_lengths


def test_no_sequence_at_all():
    layout = Layout.from_lengths([])
    assert (layout.num_tokens, layout.num_sequences, layout.max_len, layout.end) == (0, 0, 0, 0)
    assert layout.split(torch.zeros(0, 2)) == ()


def test_select_and_tokens_go_together():
    layout = Layout.from_lengths([2, 3, 1], starts=[0, 4, 0])
    x = torch.arange(6)
    assert x[layout.row_indices([1, 0, 1])].tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    picked = layout.select([1, 0, 1])
    assert picked.host_lengths == (3, 2, 3)
    assert picked.host_starts == (4, 0, 4)


def test_pad_and_back():
    layout = Layout.from_lengths([2, 0, 3], starts=[9, 0, 1])
    x = torch.randn(5, 4)
    dense = layout.pad(x, value=-1.0)
    assert dense.shape == (3, 3, 4)
    assert (dense[1] == -1).all() and (dense[0, 2] == -1).all()
    assert torch.equal(layout.unpad(dense), x)


@pytest.mark.parametrize(
    ("lengths", "starts", "says"),
    [([2, -1], None, "length -1"), ([2, 1], [0], "2 lengths but 1 starts"), ([2], [-3], "position -3")],
)
def test_bad_layouts_are_refused(lengths, starts, says):
    with pytest.raises(ValueError, match=says):
        Layout.from_lengths(lengths, starts)


def test_a_sequence_that_is_not_there():
    with pytest.raises(ValueError, match="no sequence 3: the batch has 2"):
        Layout.from_lengths([1, 1]).rows(3)
