"""What tasks that find answers in a text share: windows of a question with its context, and their scores."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Rows
from clearhead.tasks.answer_spans import answers_of
from clearhead.tasks.embed_texts import batches
from clearhead.tasks.encoder_task import BATCH_TOKENS, EncoderTask
from clearhead.tasks.windows import WindowTokenizer
from clearhead.text import TokenBatch


class SpanTask(EncoderTask):
    """A task that reads a question together with each window of its context."""

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return whether there are questions without an answer."""
        return {"unanswered": any(answers_of(row) == [] for row in rows)}

    def windows(self, questions: Sequence[str], contexts: Sequence[str]) -> TokenBatch:
        """Return the windows of each question with its context; `sources` is the number of the pair."""
        max_len = self.settings.max_len
        windows = WindowTokenizer(self.tokenizer, max_len, self.settings.segments)
        stride = windows.stride - max_len // 4
        return self.tokenizer.windows(windows.halved(questions), list(contexts), max_len=max_len, stride=stride)

    def window_scores(self, model: nn.Module, tokens: TokenBatch) -> Iterator[Tensor]:
        """Yield the scores of the tokens of each window, (T, labels)."""
        device, first = next(iter(model.parameters())).device, 0
        for count in batches(tokens.layout.host_lengths, BATCH_TOKENS):
            rows = slice(tokens.layout.rows(first).start, tokens.layout.rows(first + count - 1).stop)
            layout = Layout.from_lengths(tokens.layout.host_lengths[first : first + count])
            segments = tokens.segments[rows].to(device) if self.settings.segments else None
            with torch.inference_mode():
                scores = model(tokens.ids[rows].to(device), layout.to(device), segments=segments).float().cpu()
            yield from layout.split(scores)
            first += count
