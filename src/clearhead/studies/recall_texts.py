"""Made-up texts for recall: pairs of rare words, or a passage of them, among many others (Arora et al. 2024)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged
from clearhead.models import Model
from clearhead.tasks import Batch
from clearhead.tasks.task import TaskSpec

Kind = Literal["needle", "induction"]
KINDS: tuple[Kind, Kind] = ("needle", "induction")  # of the examples in turn
COMMON_WORDS, RARE_WORDS = 64, 512  # token ids of the filling, and above them of what is asked for
VOCAB_SIZE = COMMON_WORDS + RARE_WORDS
NUM_PAIRS = 8
NUM_RARE = 2 * NUM_PAIRS  # in a text, at the end of which they occur again
MIN_LEN = 4 * NUM_RARE
NOT_ASKED = -1


@dataclass(frozen=True, eq=False)
class RecallTexts:
    """Predicts rare words from their first occurrence. A text is random common words, the same for equal numbers.

    `needle`: pairs of rare words, each at a place of its own; at the end every first word is asked for its second.
    `induction`: a passage of rare words that begins again at the end; each of its words is asked for the next.
    """

    spec: ClassVar[TaskSpec] = TaskSpec(
        name="recall", column_sets=(("length",),), metrics=("loss", "needle", "induction"), template=None
    )

    @staticmethod
    def examples(lengths: Integers) -> InMemoryColumns:
        """Return examples of these lengths, of both kinds in turn."""
        if len(lengths) and int(lengths.min()) < MIN_LEN:
            raise ValueError(f"a text of {lengths.min()} tokens is too short for {NUM_RARE} rare words: use {MIN_LEN}")
        return {"length": Ragged.from_lists([int(length)] for length in lengths)}

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        chosen = np.arange(len(columns["length"])) if examples is None else examples
        return columns["length"].take(chosen)[0]

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        chosen = np.arange(len(columns["length"])) if examples is None else examples
        return np.where(chosen % 2 == 0, NUM_PAIRS, NUM_RARE - 1)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return texts, with labels where a rare word is asked for; the kind of a text is its `example_ids`."""
        lengths = self.lengths(columns, examples).tolist()
        numbers = examples.tolist()
        texts = [_text(KINDS[n % 2], length, n, draw) for n, length in zip(numbers, lengths, strict=True)]
        empty = np.zeros(0, dtype=np.int64)
        ids, labels = (np.concatenate([empty, *(text[side] for text in texts)]) for side in (0, 1))
        kinds = torch.tensor([n % 2 for n in numbers])
        return Batch(torch.from_numpy(ids), Layout.from_lengths(lengths), torch.from_numpy(labels), example_ids=kinds)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return -log p of the words that are asked for, summed."""
        return self.loss_and_metrics(model, batch)[0]

    def loss_and_metrics(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        """Return the loss, and the accuracy on texts of each kind in percent."""
        assert isinstance(model, Model) and batch.example_ids is not None
        places = (batch.labels != NOT_ASKED).nonzero()[:, 0]
        scores, labels = model(batch.ids, batch.layout, places=places).float(), batch.labels[places]
        right = scores.argmax(1) == labels
        kinds = batch.example_ids[batch.layout.sequence_ids[places]]
        counts = {name: (kinds == i) for i, name in enumerate(KINDS)}
        accuracy = {name: (100.0 * float(right[of].sum()), float(of.sum())) for name, of in counts.items()}
        return F.cross_entropy(scores, labels, reduction="sum"), accuracy


def _text(kind: Kind, length: int, number: int, draw: int) -> tuple[Integers, Integers]:
    """Return the ids and labels of a text, (T,)."""
    random = np.random.default_rng([draw, number])
    ids = random.integers(COMMON_WORDS, size=length)
    labels = np.full(length, NOT_ASKED)
    rare = COMMON_WORDS + random.choice(RARE_WORDS, size=NUM_RARE, replace=False)
    end = length - NUM_RARE
    if kind == "needle":
        pairs = rare.reshape(NUM_PAIRS, 2)
        places = 2 * random.choice(end // 2, size=NUM_PAIRS, replace=False)
        ids[places], ids[places + 1] = pairs[:, 0], pairs[:, 1]
        asked = random.permutation(pairs)
        ids[end:] = asked.reshape(-1)
        labels[end::2] = asked[:, 1]
    else:
        first = int(random.integers(end - NUM_RARE + 1))
        ids[first : first + NUM_RARE] = ids[end:] = rare
        labels[end:-1] = rare[1:]
    return ids, labels
