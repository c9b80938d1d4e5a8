import pytest
import torch

from clearhead.attention import Cache, CacheConfig, Layout, OutOfBlocks

CONFIG = CacheConfig(num_layers=2, num_kv_heads=1, head_dim=2, block_size=4)


def write(cache: Cache, sizes: list[int], value: float) -> None:
    cache.extend(Layout.of(sizes))
    for layer in range(2):
        x = torch.full((sum(sizes), 1, 2), value + layer / 10)
        cache.write(layer, x, -x)


def held(cache: Cache, layer: int = 0) -> list[list[float]]:
    k, v = cache.read(layer)
    assert torch.equal(k, -v)
    return [part[:, 0, 0].tolist() for part in cache.layout.split(k)]


def test_tokens_come_back_in_order():
    cache = Cache(CONFIG, 2)
    write(cache, [3, 5], 1.0)
    write(cache, [2, 0], 2.0)
    assert held(cache) == [[1, 1, 1, 2, 2], [1] * 5]
    assert held(cache, 1)[0] == pytest.approx([1.1, 1.1, 1.1, 2.1, 2.1])
    assert cache.layout.sizes == (5, 5)
    placed = cache.extend(Layout.of([1, 2]))
    assert placed.firsts == (5, 5)


def test_beams_share_blocks_until_they_part():
    cache = Cache(CONFIG, 1)
    write(cache, [6], 1.0)
    assert cache.blocks_used == 2
    cache.select([0, 0, 0])
    assert cache.blocks_used == 2
    cache.extend(Layout.of([1, 1, 1]))
    for layer in range(2):
        x = torch.tensor([7.0, 8.0, 9.0]).view(3, 1, 1).expand(3, 1, 2)
        cache.write(layer, x, -x)
    assert held(cache) == [[1] * 6 + [7], [1] * 6 + [8], [1] * 6 + [9]]
    assert cache.blocks_used == 4  # the full one is shared, the last ones are their own
    cache.select([2, 0])
    assert held(cache) == [[1] * 6 + [9], [1] * 6 + [7]]
    assert cache.blocks_used == 3
    cache.free(0)
    assert held(cache) == [[1] * 6 + [7]]
    cache.free(0)
    assert cache.blocks_used == 0


def test_sequences_join_and_leave():
    cache = Cache(CONFIG, 0)
    cache.add(2)
    write(cache, [2, 9], 1.0)
    cache.free(0)
    cache.add()
    write(cache, [1, 3], 2.0)
    assert held(cache) == [[1] * 9 + [2], [2, 2, 2]]


def test_a_bounded_cache_says_when_it_is_full():
    cache = Cache(CacheConfig(1, 1, 2, block_size=4, max_blocks=2), 1)
    cache.extend(Layout.of([8]))
    with pytest.raises(OutOfBlocks, match="all 2 blocks of 4 tokens are in use"):
        cache.extend(Layout.of([1]))


def test_misuse_is_named():
    cache = Cache(CONFIG, 2)
    with pytest.raises(ValueError, match="3 sequences to append, but the cache holds 2"):
        cache.extend(Layout.of([1, 1, 1]))
    cache.extend(Layout.of([1, 1]))
    with pytest.raises(ValueError, match="3 tokens written, but the cache was extended by 2"):
        cache.write(0, torch.zeros(3, 1, 2), torch.zeros(3, 1, 2))
    with pytest.raises(ValueError, match="no sequence 5"):
        cache.select([5])
    with pytest.raises(ValueError, match="block_size is 0"):
        CacheConfig(1, 1, 2, block_size=0)


def test_a_long_generation_survives_growth():
    """Beams that fork and die for a hundred steps hold exactly what a plain list would."""
    generator = torch.Generator().manual_seed(0)
    cache, plain = Cache(CONFIG, 3), [[], [], []]
    for step in range(100):
        write(cache, [1] * len(plain), float(step))
        plain = [[*p, float(step)] for p in plain]
        order = torch.randint(len(plain), (3,), generator=generator).tolist()
        cache.select(order)
        plain = [plain[i] for i in order]
        assert held(cache) == plain
