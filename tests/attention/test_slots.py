import numpy as np
import torch

from clearhead.attention import Layout
from clearhead.attention.slots import ROUND, Memory, Slots


def push(slots: Slots, values: list[list[float]]) -> None:
    """A step: one value for each hypothesis of each sequence."""
    slots.open()
    x = torch.tensor(values).flatten().view(-1, 1, 1).expand(-1, 2, 3)
    slots.write(0, x, -x)


def held(slots: Slots) -> list[list[list[float]]]:
    """What each hypothesis sees, in the order of its tokens."""
    k, v = slots.places(0)
    assert torch.equal(k, -v)
    table = slots.table() == 0  # (B, W, S)
    out = []
    for b in range(slots.num_sequences):
        rows = []
        for w in range(slots.width):
            at = np.flatnonzero(table[b, w])
            at = at[np.argsort(slots.positions[b, at])]
            rows.append(k[b, 0, at, 0].tolist())
        out.append(rows)
    return out


def test_hypotheses_fork_share_and_die():
    slots = Slots(1, 2, dtype=torch.float32, device="cpu")
    push(slots, [[1], [2]])
    slots.select(np.array([0, 1]), np.array([[0, 0], [0, 0]]))
    push(slots, [[11, 12], [21, 22]])
    assert held(slots) == [[[1, 11], [1, 12]], [[2, 21], [2, 22]]]
    slots.select(np.array([0, 1]), np.array([[1, 1], [0, 1]]))
    push(slots, [[13, 14], [23, 24]])
    assert held(slots) == [[[1, 12, 13], [1, 12, 14]], [[2, 21, 23], [2, 22, 24]]]
    slots.select(np.array([1]), np.array([[1]]))  # a sequence leaves, and the last takes its row
    assert held(slots) == [[[2, 22, 24]]]
    assert slots.read(0)[0].shape == (slots.length, 2, 3) and slots.layout.sizes == (slots.length,)


def test_places_that_nobody_sees_are_used_again():
    """Hypotheses that always fork from one parent hold what they share once: five of them, a hundred steps."""
    slots = Slots(1, 1, dtype=torch.float32, device="cpu")
    push(slots, [[0]])
    for step in range(1, 100):
        slots.select(np.array([0]), np.array([[0] * 5]))
        push(slots, [[step] * 5])
    assert held(slots)[0][3] == list(range(100))
    assert slots.length < 100 * 1.5 + 5 + ROUND  # not 500


def test_prompts_of_any_length():
    slots = Slots(1, 3, dtype=torch.float32, device="cpu")
    layout = Layout.of([2, 0, 3])
    slots.fill(layout)
    x = torch.arange(5.0).view(-1, 1, 1).expand(-1, 2, 3)
    slots.put(0, layout, x, -x)
    assert slots.open().tolist() == [2, 0, 3]  # the position of the next token
    y = torch.tensor([7.0, 8.0, 9.0]).view(-1, 1, 1).expand(-1, 2, 3)
    slots.write(0, y, -y)
    assert held(slots) == [[[0, 1, 7]], [[8]], [[2, 3, 4, 9]]]


def test_a_memory_is_padded_once_and_never_doubled():
    layout = Layout.of([1, 3, 2])
    memory = Memory(1, layout, torch.float32)
    assert not memory.holds(0)
    x = torch.arange(6.0).view(-1, 1, 1).expand(-1, 2, 3)
    memory.write(0, x, x)
    assert memory.holds(0) and memory.layout.sizes == (3, 3, 3)
    memory.select(np.array([2, 1]))
    seen = [memory.places(0)[0][b, 0, :, 0][memory.table[b] == 0].tolist() for b in range(2)]
    assert seen == [[4, 5], [1, 2, 3]]
