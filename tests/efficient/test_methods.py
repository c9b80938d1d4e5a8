"""Options, selection and errors of single methods; what all share is in `tests/efficient/test_properties.py`."""

import pytest
import torch

from clearhead.attention import Causal, Full, Layout, ScaledDot, Window
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Mask
from clearhead.efficient import (
    LSH,
    METHODS,
    BigBird,
    GatedLinear,
    Linformer,
    Nystrom,
    Performer,
    ReformerLSH,
    SelectedBlocks,
    make_method,
)
from clearhead.models import ModelConfig, TransformerConfig, build
from clearhead.models.attention_methods import with_attention


def inputs(length: int, mask: Mask | None = None, heads: int = 2) -> AttentionInputs:
    q, k, v = (torch.randn(length, heads, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    layout = Layout.from_lengths([length])
    return AttentionInputs(q, k, v, layout, layout, Full() if mask is None else mask, ScaledDot())


class TestOptions:
    @pytest.mark.parametrize("kind", METHODS)
    def test_round_trip(self, kind: str) -> None:
        method = make_method({"kind": kind}, width=16, num_heads=2, head_dim=8, max_len=64)
        again = make_method(method.options)
        assert again.options == method.options and type(again) is type(method)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kind": "bigbrid"}, "there is no attention method 'bigbrid': choose bigbird"),
            ({"window": 3}, "there is no attention method None"),
            ({"kind": "lsh", "rouns": 2}, "lsh attention has no option rouns: it has rounds"),
            ({"kind": "bigbird", "window": 2}, "it must be odd"),
            ({"kind": "lsh", "buckets": 7}, "it must be 1 or even"),
            ({"kind": "performer", "features": 0}, "features is 0: it must be a whole number, 1 or more"),
            ({"kind": "strided", "stride": "8"}, "stride is '8'"),
            ({"kind": "gated_linear", "head_dim": 8, "chunk": 100}, "chunk is 100"),
        ],
    )
    def test_wrong_ones_are_explained(self, options: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make_method(options)

    def test_sizes_of_the_model_are_defaults(self) -> None:
        assert make_method({"kind": "linformer"}, max_len=100, head_dim=8).options["max_len"] == 100
        assert make_method({"kind": "linformer", "max_len": 50}, max_len=100, head_dim=8).options["max_len"] == 50
        assert "head_dim" not in make_method({"kind": "bigbird"}, max_len=100, head_dim=8).options


class TestMasksThatAMethodCannotCompute:
    @pytest.mark.parametrize("method", [Linformer(rank=4, max_len=64), Nystrom(landmarks=4)])
    def test_low_rank(self, method: Linformer | Nystrom) -> None:
        with pytest.raises(ValueError, match="so it has no Causal mask"):
            method(inputs(20, Causal()))

    def test_performer(self) -> None:
        with pytest.raises(ValueError, match="so it has no Window mask"):
            Performer()(inputs(20, Window(3, 3)))

    def test_recurrent(self) -> None:
        with pytest.raises(ValueError, match="from left to right"):
            GatedLinear(head_dim=8)(inputs(20))
        with pytest.raises(ValueError, match="head_dim is 4"):
            GatedLinear(head_dim=4)(inputs(20, Causal()))

    def test_a_text_longer_than_the_projection(self) -> None:
        with pytest.raises(ValueError, match="20 tokens, but this linformer attention has max_len 16"):
            Linformer(rank=4, max_len=16)(inputs(20))


class TestBigBird:
    def test_each_row_reads_what_the_paper_names(self) -> None:
        method = BigBird(window=3, global_blocks=1, random=2, block=4)
        table = method.mask(inputs(80)).table[0]  # type: ignore[attr-defined]
        assert table.shape == (2, 20, 20)
        i, j = torch.arange(20).unsqueeze(1), torch.arange(20)
        fixed = ((i - j).abs() <= 1) | (j == 0) | (i == 0)
        assert bool(table[:, fixed].all())
        extra = (table & ~fixed).sum(2)[:, 1:]
        assert int(extra.max()) == 2 and float(extra.float().mean()) > 1
        assert not torch.equal(table[0], table[1]), "heads draw different blocks"
        other = BigBird(window=3, global_blocks=1, random=2, block=4, seed=1).mask(inputs(80))
        assert not torch.equal(other.table[0], table)  # type: ignore[attr-defined]

    def test_causal_rows_keep_their_blocks_as_the_text_grows(self) -> None:
        method = BigBird(window=1, global_blocks=1, random=2, block=4)
        short, long = (method.mask(inputs(n, Causal())).table[0] for n in (40, 80))  # type: ignore[attr-defined]
        assert torch.equal(short.tril(), long[:, :10, :10].tril())

    def test_random_blocks_of_a_ragged_batch_lie_inside_each_text(self) -> None:
        """A text draws among its own blocks: as many as alone, whatever else is in the batch."""
        layout = Layout.from_lengths([40, 400])
        q = torch.randn(440, 2, 8)
        method = BigBird(window=1, global_blocks=0, random=2, block=4)
        mask = method.mask(AttentionInputs(q, q, q, layout, layout, Full(), ScaledDot()))
        alone = method.mask(inputs(40))
        assert torch.equal(mask.table[0, :, :10, :10], alone.table[0])  # type: ignore[attr-defined]


class TestSelectedBlocks:
    def test_the_block_that_holds_the_needle_is_read(self) -> None:
        x = inputs(64, heads=1)
        x.q.zero_()
        x.k.zero_()
        x.q[40:48, 0, 0] = 10.0
        x.k[24:32, 0, 0] = 10.0
        table = SelectedBlocks(blocks=3, block=8).mask(x).table[0, 0]  # type: ignore[attr-defined]
        assert table[5].nonzero().flatten().tolist() == [0, 3, 5]


class TestNystrom:
    @pytest.mark.parametrize("landmarks", [4, 64])
    def test_a_convolution_of_the_values_is_added(self, landmarks: int) -> None:
        x = inputs(21)
        plain, method = Nystrom(landmarks=landmarks), Nystrom(landmarks=landmarks, conv=5, num_heads=2)
        assert method.taps is not None
        torch.nn.init.normal_(method.taps, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            out, without = method(x), plain(x)
            for head in range(2):
                taps, values = method.taps[head].flatten(), x.v[:, head]
                near = torch.stack([
                    sum((taps[j] * values[t + j - 2] for j in range(5) if 0 <= t + j - 2 < 21), torch.zeros(8))
                    for t in range(21)
                ])  # fmt: skip
                torch.testing.assert_close(out[:, head], without[:, head] + near)
                torch.testing.assert_close(method.rows(x, 0, head, [3, 20]) @ values, out[[3, 20], head])

    def test_an_even_convolution_is_refused(self) -> None:
        with pytest.raises(ValueError, match="it must be odd"):
            Nystrom(conv=4)


class TestLSH:
    def test_near_vectors_are_found_far_apart(self) -> None:
        """A query finds the one key that is nearly parallel to it, wherever it is; most others it does not read."""
        generator = torch.Generator().manual_seed(0)
        keys = torch.randn(2000, 1, 32, generator=generator)
        layout = Layout.from_lengths([2000])
        queries = keys.roll(1000, 0) + 0.1 * torch.randn(2000, 1, 32, generator=generator)
        x = AttentionInputs(queries, keys, keys, layout, layout, Full(), ScaledDot())
        method = LSH(rounds=4, buckets=64, window=64, local=0)
        own = method.mask(x).of_head(0, 0)
        at = torch.arange(2000)
        found = own.allows(torch.tensor(0), at, (at - 1000) % 2000)
        assert float(found.float().mean()) > 0.9
        every = own.allows(torch.tensor(0), at[:100].unsqueeze(1), at)
        assert float(every.float().mean()) < 0.15

    def test_heads_asked_at_once_answer_as_one_by_one(self) -> None:
        generator = torch.Generator().manual_seed(1)
        queries, keys = torch.randn(50, 4, 8, generator=generator), torch.randn(50, 2, 8, generator=generator)
        layout = Layout.from_lengths([30, 20], [0, 5])
        x = AttentionInputs(queries, keys, keys, layout, layout, Full(), ScaledDot())
        own = LSH(rounds=2, buckets=4, window=5, local=2).mask(x)
        mask, at = (own & Causal()) | Window(0, 0), 5 + torch.arange(20)
        found = mask.allows_heads(1, range(1, 4), at.unsqueeze(1), at)
        each = [mask.of_head(1, head).allows(torch.tensor(1), at.unsqueeze(1), at) for head in range(1, 4)]
        assert torch.equal(found, torch.stack(each))
        assert not torch.equal(found[0], found[1])
        assert len(Causal().allows_heads(1, range(4), at.unsqueeze(1), at)) == 1

    def test_buckets_are_even(self) -> None:
        x = torch.randn(10_000, 16, generator=torch.Generator().manual_seed(0))
        counts = torch.bincount(LSH(buckets=16).bucket_of(x, 0), minlength=16)
        assert len(counts) == 16 and int(counts.min()) > 300 and int(counts.max()) < 1000


class TestReformer:
    def test_a_text_of_one_chunk_reads_all_but_itself(self) -> None:
        x = inputs(12, Causal())
        method = ReformerLSH(chunk=16)
        key = x.k[:, 0] / (x.k[:, 0].square().mean(1, keepdim=True) + 1e-6).sqrt() / 8**0.5
        scores = (x.k[:, 0] @ key.T).masked_fill(torch.ones(12, 12).triu() > 0, -torch.inf)
        scores[0, 0] = 0.0  # the first token has no other
        torch.testing.assert_close(method.rows(x, 0, 0, slice(None)), torch.softmax(scores, 1))

    def test_buckets_follow_the_length(self) -> None:
        assert ReformerLSH(chunk=64)._factors(1024) == (32,)
        assert ReformerLSH(chunk=4, max_len=64)._factors(64) == (4, 8), (
            "at most twice the chunk length, else two factors"
        )

    @pytest.mark.parametrize("buckets", [3, (4, 5), [2, "4"]])
    def test_odd_numbers_of_buckets(self, buckets: object) -> None:
        with pytest.raises(ValueError, match="numbers of buckets are even"):
            make_method({"kind": "reformer_lsh", "buckets": buckets})

    def test_a_model_with_two_projections_is_refused(self) -> None:
        config = ModelConfig(encoder=TransformerConfig(vocab_size=9, width=8, num_layers=1, num_heads=2, ffn_dim=8))
        with pytest.raises(ValueError, match="projections for both"):
            with_attention(build(config), config, ReformerLSH())
