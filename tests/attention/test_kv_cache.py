import numpy as np
import pytest
import torch

from clearhead.attention import Layout
from clearhead.attention.kv_cache import SLOT_MULTIPLE, CrossAttentionCache, KVCache


def push(slots: KVCache, values: list[list[float]]) -> None:
    """A step: one value for each hypothesis of each sequence."""
    slots.begin_step()
    x = torch.tensor(values).flatten().view(-1, 1, 1).expand(-1, 2, 3)
    slots.write(0, x, -x)


def held(slots: KVCache) -> list[list[list[float]]]:
    """What each hypothesis sees, in the order of its tokens."""
    k, v = slots.buffers(0)
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
    slots = KVCache(1, 2)
    push(slots, [[1], [2]])
    slots.select(np.array([0, 1]), np.array([[0, 0], [0, 0]]))
    push(slots, [[11, 12], [21, 22]])
    assert held(slots) == [[[1, 11], [1, 12]], [[2, 21], [2, 22]]]
    slots.select(np.array([0, 1]), np.array([[1, 1], [0, 1]]))
    push(slots, [[13, 14], [23, 24]])
    assert held(slots) == [[[1, 12, 13], [1, 12, 14]], [[2, 21, 23], [2, 22, 24]]]
    slots.select(np.array([1]), np.array([[1]]))  # a sequence leaves, and the last takes its row
    assert held(slots) == [[[2, 22, 24]]]
    assert slots.read(0)[0].shape == (slots.length, 2, 3) and slots.layout.host_lengths == (slots.length,)


def test_slots_that_no_hypothesis_sees_are_reused():
    """Hypotheses that always fork from one parent hold what they share once: five of them, a hundred steps."""
    slots = KVCache(1, 1)
    push(slots, [[0]])
    for step in range(1, 100):
        slots.select(np.array([0]), np.array([[0] * 5]))
        push(slots, [[step] * 5])
    assert held(slots)[0][3] == list(range(100))
    assert slots.length < 100 * 1.5 + 5 + SLOT_MULTIPLE  # not 500


def test_prompts_of_any_length():
    slots = KVCache(1, 3)
    slots.extend(Layout.from_lengths([2, 0, 3]))
    x = torch.arange(5.0).view(-1, 1, 1).expand(-1, 2, 3)
    slots.write(0, x, -x)
    assert slots.begin_step().tolist() == [2, 0, 3]  # the position of the next token
    y = torch.tensor([7.0, 8.0, 9.0]).view(-1, 1, 1).expand(-1, 2, 3)
    slots.write(0, y, -y)
    assert held(slots) == [[[0, 1, 7]], [[8]], [[2, 3, 4, 9]]]


def test_a_context_is_padded_once_and_not_duplicated():
    layout = Layout.from_lengths([1, 3, 2])
    memory = CrossAttentionCache(1, layout, torch.float32)
    assert not memory.holds(0)
    x = torch.arange(6.0).view(-1, 1, 1).expand(-1, 2, 3)
    memory.write(0, x, x)
    assert memory.holds(0) and memory.layout.host_lengths == (3, 3, 3)
    memory.select(np.array([2, 1]))
    seen = [memory.buffers(0)[0][b, 0, :, 0][memory.table[b] == 0].tolist() for b in range(2)]
    assert seen == [[4, 5], [1, 2, 3]]


def append(cache: KVCache, sizes: list[int], value: float) -> Layout:
    """A chunk: so many tokens of each sequence, with one value."""
    placed = cache.extend(Layout.from_lengths(sizes))
    for layer in range(2):
        x = torch.full((sum(sizes), 1, 2), value + layer / 10)
        cache.write(layer, x, -x)
    return placed


def ragged(cache: KVCache, layer: int = 0) -> list[list[float]]:
    k, v = cache.read(layer)
    assert torch.equal(k, -v)
    return [part[:, 0, 0].tolist() for part in cache.layout.split(k)]


def test_chunks_come_back_in_order():
    cache = KVCache(2, 2)
    assert append(cache, [3, 5], 1.0).host_starts == (0, 0)
    assert append(cache, [2, 0], 2.0).host_starts == (3, 5)
    assert ragged(cache) == [[1, 1, 1, 2, 2], [1] * 5]
    assert ragged(cache, 1)[0] == pytest.approx([1.1, 1.1, 1.1, 2.1, 2.1])
    assert cache.layout.host_lengths == (5, 5)
    assert append(cache, [1, 20], 3.0).host_starts == (5, 5)  # more slots than before
    assert ragged(cache) == [[1, 1, 1, 2, 2, 3], [1] * 5 + [3] * 20]


def test_a_prompt_then_steps_then_a_chunk():
    cache = KVCache(2, 2)
    append(cache, [2, 1], 1.0)
    assert cache.begin_step().tolist() == [2, 1]
    for layer in range(2):
        x = torch.tensor([5.0, 6.0]).view(2, 1, 1).expand(2, 1, 2) + layer / 10
        cache.write(layer, x, -x)
    cache.select(np.array([1, 0]), np.array([[0], [0]]))
    append(cache, [1, 2], 7.0)
    assert ragged(cache) == [[1, 6, 7], [1, 1, 5, 7, 7]]


def test_misuse_is_named():
    cache = KVCache(2, 2)
    with pytest.raises(ValueError, match="3 sequences to append, but the cache has 2"):
        cache.extend(Layout.from_lengths([1, 1, 1]))
    cache.extend(Layout.from_lengths([1, 1]))
    with pytest.raises(ValueError, match="3 tokens written, but the cache was extended by 2"):
        cache.write(0, torch.zeros(3, 1, 2), torch.zeros(3, 1, 2))
    cache.select(np.array([0, 1]), np.array([[0, 0], [0, 0]]))
    with pytest.raises(ValueError, match="select one parent per sequence first"):
        cache.extend(Layout.from_lengths([1, 1]))
