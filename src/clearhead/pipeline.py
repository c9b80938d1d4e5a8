"""`load` and `Pipeline`: a model, its tokenizer and its task in one object."""

import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, overload

import torch
from torch import Tensor

from clearhead.attention import ablate_heads as without_heads
from clearhead.decode import (
    Caption,
    Generation,
    SamplingParams,
    StreamChunk,
    TextGenerator,
    Translation,
    TranslationEngine,
    chat,
    generate,
    sampling_params,
    stream,
    translate,
)  # fmt: skip
from clearhead.decode.translation_engine import EngineName
from clearhead.efficient import AttentionMethod
from clearhead.files.manifest import Folder
from clearhead.hub.folder import LoadedModel, extend, open_folder, save_folder
from clearhead.hub.model_folder import ModelFolder
from clearhead.hub.push import push_folder
from clearhead.hub.sentence import SentenceConfig, read_sentence
from clearhead.models.attention_methods import StackName, with_attention
from clearhead.models.heads import HeadKind
from clearhead.models.longer_positions import PositionMethod
from clearhead.models.precision import choose_device, choose_dtype
from clearhead.tasks import Classification, Classify, Pair, QaResult, QuestionAnswering, Rerank, Tag, TagResult
from clearhead.tasks.caption_images import CaptionImages
from clearhead.tasks.classify_images import ClassifyImages
from clearhead.tasks.draw_images import DrawImages
from clearhead.tasks.embed_texts import BATCH_TOKENS, EmbeddedBatch, embed_texts
from clearhead.tasks.explain import Explanation, explain_cosine, explain_relevance
from clearhead.tasks.image_inputs import ImageInput
from clearhead.tasks.rerank import RankedDocument
from clearhead.text import TokenBatch, Tokenizer
from clearhead.text.token_batch import Truncation
from clearhead.viz import CapturedRun
from clearhead.viz import look as look_at


class Pipeline:
    """The result of `clearhead.load`: encode, classify, tag, translate and generate texts, look at attention, save.

    `model` is the PyTorch module, `tokenizer` its tokenizer, and `loaded` holds everything read from `folder`.
    """

    def __init__(self, loaded: LoadedModel, *, folder: Path | None = None, fastest: bool = False) -> None:
        """`folder` is where it was read from; `fastest` says that its dtype was left to the machine ("auto")."""
        self.loaded = loaded
        self.folder, self._fastest = folder, fastest
        self.model = loaded.model
        self.sentence: SentenceConfig = read_sentence(loaded.extra_files)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the folder."""
        return self.loaded.require_tokenizer

    @property
    def max_len(self) -> int | None:
        """The maximum tokens of a text: the minimum of the folder's, the tokenizer's and the model's limits."""
        return min((n for n in (self.sentence.max_len, self.loaded.max_len) if n is not None), default=None)

    def tokens(self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None) -> TokenBatch:
        """Tokenize texts as the model reads them; `tokenizer.tokens(ids)` returns the token strings."""
        return self.tokenizer(texts, pairs, max_len=self.max_len)

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        pool: str | None = None,
        normalize: bool | None = None,
        prompt: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Tensor:
        """Return one vector per text, (len(texts), D), float32; for a single string, its vector (D,).

        Pooling and normalization are the folder's unless given. `prompt` is the name of one of the folder's prompts:
        "query" for what is asked, "document" for what is searched. A text longer than the model reads is truncated,
        with a warning.
        """
        single = isinstance(texts, str)
        batch = [texts] if isinstance(texts, str) else texts
        options: dict[str, Any] = {"pool": pool, "normalize": normalize, "prompt": prompt, "batch_tokens": batch_tokens}
        parts = list(self.encode_batches(batch, **options))
        if cut := sum(part.num_truncated for part in parts):
            longest = max(part.longest for part in parts)
            warnings.warn(
                f"{cut} of {sum(len(p.vectors) for p in parts)} texts were truncated to the {self.max_len} tokens this "
                f"model reads; the longest had {longest}",
                stacklevel=2,
            )
        width = (self.loaded.config.encoder or self.loaded.config.stack).width
        vectors = torch.cat([part.vectors for part in parts]) if parts else torch.zeros(0, width)
        return vectors[0] if single else vectors

    def encode_batches(
        self,
        texts: Iterable[str],
        *,
        pool: str | None = None,
        normalize: bool | None = None,
        prompt: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Iterator[EmbeddedBatch]:
        """Yield the vectors of texts batch by batch, for unbounded streams."""
        config = replace(
            self.sentence,
            pool=self.sentence.pool if pool is None else pool,
            normalize=self.sentence.normalize if normalize is None else normalize,
            max_len=self.max_len,
        )
        prefix = self.sentence.prompt(prompt)
        return embed_texts(self.model, self.tokenizer, texts, config, batch_tokens=batch_tokens, prompt=prefix)

    @cached_property
    def generator(self) -> TextGenerator:
        """The text generator; raises ValueError where the model does not generate text."""
        return TextGenerator.from_model(self.loaded)

    @cached_property
    def translation_engine(self) -> TranslationEngine:
        """The choice between clearhead's own decoder and CTranslate2."""
        return TranslationEngine(self.generator, self.folder, fastest=self._fastest)

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, beam: int | None = None, length_penalty: float | None = None, nbest: int = 1,
        max_len: int | None = None, align: bool = False, engine: EngineName = "auto",
    ) -> Translation: ...  # fmt: skip

    @overload
    def translate(
        self, texts: Iterable[str], *, beam: int | None = None, length_penalty: float | None = None, nbest: int = 1,
        max_len: int | None = None, align: bool = False, engine: EngineName = "auto",
    ) -> list[Translation]: ...  # fmt: skip

    def translate(
        self, texts: str | Iterable[str], *, beam: int | None = None, length_penalty: float | None = None,
        nbest: int = 1, max_len: int | None = None, align: bool = False, engine: EngineName = "auto",
    ) -> Translation | list[Translation]:  # fmt: skip
        """Return translations in the order of the texts; for a single string, its translation.

        `beam` and `length_penalty` are the folder's unless given (else a beam of 5); a beam of 1 is greedy. `nbest`
        keeps more hypotheses, `max_len` limits the generated tokens, `align` adds the token alignment. `engine` is
        "clearhead", "ctranslate2" or "auto": CTranslate2 for a model loaded with dtype "auto", where it is faster.
        Inside `look`, the attention of the finished translations is captured, not the search.
        """
        batch = [texts] if isinstance(texts, str) else list(texts)
        config = self.generator.beam(beam, length_penalty=length_penalty, nbest=nbest, default=5)
        search = self.translation_engine.select(engine, config, len(batch)).search
        results: dict[int, Translation] = {}
        truncated: list[Truncation] = []
        options: dict[str, Any] = {"max_new_tokens": max_len, "align": align, "search": search}
        for done, shortened in translate(self.generator, batch, config, **options):
            results.update(done)
            truncated += shortened
        if truncated:
            warnings.warn(
                f"{len(truncated)} of {len(batch)} texts were truncated to the {truncated[0].kept_tokens} tokens this "
                f"model reads; the longest had {max(t.original_tokens for t in truncated)}",
                stacklevel=2,
            )
        ordered = [results[i] for i in range(len(batch))]
        return ordered[0] if isinstance(texts, str) else ordered

    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompts: str, *, max_new_tokens: int | None = None, temperature: float | None = None,
        top_k: int | None = None, top_p: float | None = None, seed: int | Sequence[int] | None = None, beam: int = 1,
    ) -> Generation: ...  # fmt: skip

    @overload
    def generate(
        self, prompts: Iterable[str], *, max_new_tokens: int | None = None, temperature: float | None = None,
        top_k: int | None = None, top_p: float | None = None, seed: int | Sequence[int] | None = None, beam: int = 1,
    ) -> list[Generation]: ...  # fmt: skip

    def generate(
        self, prompts: str | Iterable[str], *, max_new_tokens: int | None = None, temperature: float | None = None,
        top_k: int | None = None, top_p: float | None = None, seed: int | Sequence[int] | None = None, beam: int = 1,
    ) -> Generation | list[Generation]:  # fmt: skip
        """Return the text generated after each prompt; for a single string, after that.

        Decoding is greedy unless a temperature, `top_k` or `top_p` is given. A request with the same seed gives the
        same text in any batch; without a seed, a random one is drawn and returned with the result.
        """
        batch = [prompts] if isinstance(prompts, str) else list(prompts)
        sampling = self._sampling(len(batch), temperature, top_k, top_p, seed)
        config = None
        if beam != 1:
            if any(params.temperature > 0 for params in sampling):
                raise ValueError("beam search does not sample: give either a beam, or temperature, top_k and top_p")
            config = self.generator.beam(beam)
        results = generate(self.generator, batch, sampling, max_new_tokens=max_new_tokens, beam=config)
        return results[0] if isinstance(prompts, str) else results

    def stream(
        self, prompts: str | Iterable[str], *, max_new_tokens: int | None = None, temperature: float | None = None,
        top_k: int | None = None, top_p: float | None = None, seed: int | Sequence[int] | None = None,
    ) -> Iterator[StreamChunk]:  # fmt: skip
        """Yield the generated text token by token: `for chunk in model.stream("Once"): print(chunk.text, end="")`."""
        batch = [prompts] if isinstance(prompts, str) else list(prompts)
        sampling = self._sampling(len(batch), temperature, top_k, top_p, seed)
        return stream(self.generator, batch, sampling, max_new_tokens=max_new_tokens)

    def _sampling(
        self, count: int, temperature: float | None, top_k: int | None, top_p: float | None,
        seed: int | Sequence[int] | None,
    ) -> list[SamplingParams]:  # fmt: skip
        return sampling_params(self.generator, count, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)

    def chat(
        self,
        turns: Sequence[str],
        *,
        max_new_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> tuple[int, Iterator[StreamChunk]]:
        """Return the number of dropped turns, the oldest ones, and an iterator over the chunks of the reply."""
        (params,) = self._sampling(1, temperature, top_k, top_p, seed)
        return chat(self.generator, turns, params, max_new_tokens=max_new_tokens)

    @overload
    def classify(self, texts: str | Path | bytes | Tensor, pairs: str | None = None) -> Classification: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, texts: Sequence[ImageInput], pairs: Sequence[str] | None = None) -> list[Classification]: ...

    def classify(
        self, texts: ImageInput | Sequence[ImageInput], pairs: str | Sequence[str] | None = None
    ) -> Classification | list[Classification]:
        """Classify each text, or each pair of texts: a label, several labels or a number, and the scores of all labels.

        A text longer than the model reads is read in windows. A model of images reads paths, contents of files or
        pixels (3, H, W) of uint8 instead of texts.
        """
        if not isinstance(texts, Sequence) or isinstance(texts, str | bytes):
            return self.classify([texts], None if pairs is None else [str(pairs)])[0]
        if self.loaded.config.patches is not None:
            if pairs is not None:
                raise ValueError("this model classifies images, which have no second text: leave `pairs` out")
            return list(ClassifyImages.from_model(self.loaded).answer(self.loaded, texts))
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("this model classifies texts: give strings")
        texts = cast(Sequence[str], texts)
        if pairs is None:
            return list(Classify.from_model(self.loaded).answer(self.loaded, texts))
        if isinstance(pairs, str) or len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(pairs)} second texts: give one for each")
        return list(Pair.from_model(self.loaded).answer(self.loaded, list(zip(texts, pairs, strict=True))))

    def caption(
        self, images: Sequence[ImageInput], *, beam: int | None = None, length_penalty: float | None = None,
        nbest: int = 1, max_len: int | None = None,
    ) -> list[Caption]:  # fmt: skip
        """Write a text about each image: paths, contents of files or pixels (3, H, W) of uint8.

        `beam` and `length_penalty` are the folder's unless given; `nbest` keeps more hypotheses. Inside `look`, the
        attention of the finished captions is captured, not the search.
        """
        captioner = self.captioner
        config = self.generator.beam(beam, length_penalty=length_penalty, nbest=nbest, default=1)
        return list(captioner.answer(self.loaded, images, config, max_new_tokens=max_len))

    @cached_property
    def captioner(self) -> CaptionImages:
        """The task that writes captions; ValueError where the model reads no images or writes no text."""
        return CaptionImages.from_model(self.loaded)

    def draw(
        self, texts: Sequence[str], *, seed: int = 0, guidance: float = 3.0, temperature: float = 1.0, top_k: int = 0
    ) -> Tensor:
        """Draw an image for each text, (n, 3, S, S) of uint8; image i has the seed `seed + i`.

        `guidance` above 1 follows the text more closely, with less variety.
        """
        params = [SamplingParams(temperature=temperature, top_k=top_k, seed=seed + i) for i in range(len(texts))]
        return DrawImages.from_model(self.loaded).draw(self.loaded, texts, params, guidance)

    @overload
    def tag(self, texts: str) -> TagResult: ...  # type: ignore[overload-overlap]

    @overload
    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[TagResult]: ...

    def tag(self, texts: str | Sequence[str | Sequence[str]]) -> TagResult | list[TagResult]:
        """Tag the words of each text and return the entities they mark; a text may be a list of words."""
        if isinstance(texts, str):
            return self.tag([texts])[0]
        return list(Tag.from_model(self.loaded).answer(self.loaded, texts))

    @overload
    def qa(self, question: str, context: str, *, nbest: int = 5) -> QaResult: ...  # type: ignore[overload-overlap]

    @overload
    def qa(self, question: Sequence[str], context: Sequence[str], *, nbest: int = 5) -> list[QaResult]: ...

    def qa(
        self, question: str | Sequence[str], context: str | Sequence[str], *, nbest: int = 5
    ) -> QaResult | list[QaResult]:
        """Answer a question from its context, of any length; with several, each from its own context."""
        if isinstance(question, str):
            return self.qa([question], [str(context)], nbest=nbest)[0]
        if isinstance(context, str) or len(context) != len(question):
            raise ValueError(f"{len(question)} questions and {len(context)} contexts: give one for each")
        inputs = list(zip(question, context, strict=True))
        return list(QuestionAnswering.from_model(self.loaded).answer(self.loaded, inputs, nbest=nbest))

    def rerank(self, query: str, documents: Sequence[str]) -> list[RankedDocument]:
        """Return the documents by their relevance to the query, the best first."""
        scores = Rerank.from_model(self.loaded).relevance(self.loaded, [(query, document) for document in documents])
        ranked = [RankedDocument(i, score, documents[i]) for i, score in enumerate(scores)]
        return sorted(ranked, key=lambda found: -found.score)

    def explain(self, first: str, second: str) -> Explanation:
        """Return what each token adds to the score of two texts: a cosine, or the relevance if the model is a reranker.

        `clearhead.viz.vector_page.explanation_page` draws it.
        """
        head = self.loaded.config.head
        if head is not None and head.kind == "sequence" and len(head.labels) == 1:
            return explain_relevance(self.loaded, first, second)
        return explain_cosine(self.loaded, first, second, replace(self.sentence, max_len=self.max_len))

    def look(self, **options: Any) -> AbstractContextManager[CapturedRun]:
        """Capture attention while the model runs: `with model.look() as seen: model.encode("…")`, `seen.show()`."""
        return look_at(self, **options)

    def with_attention(
        self, method: AttentionMethod | None, layers: Iterable[int] | None = None, stack: StackName | None = None
    ) -> "Pipeline":
        """Return the model with a method of `clearhead.efficient` in some layers, sharing all weights; None: exact."""
        model, config = with_attention(self.model, self.loaded.config, method, layers, stack)
        return Pipeline(replace(self.loaded, model=model, config=config))

    def with_max_len(self, max_len: int, positions: PositionMethod = "repeat") -> "Pipeline":
        """Return the model for longer texts: it shares all weights but its positions, which a fine-tuning adapts."""
        return Pipeline(extend(self.loaded, max_len, positions))

    def ablate_heads(self, heads: Mapping[str, Sequence[int] | Literal["all"]]) -> AbstractContextManager[None]:
        """Zero these attention heads inside the context."""
        return without_heads(self.model, heads)

    def save(self, folder: str | Folder, *, overwrite: bool = False, metadata: Mapping[str, Any] | None = None) -> None:
        """Save a folder that `load` and `transformers` open, on disk or in an object store (`s3://...`)."""
        save_folder(self.loaded, folder, overwrite=overwrite, metadata=metadata)

    def push_to_hub(self, repo: str, *, private: bool = False, message: str | None = None,
                    token: str | None = None) -> str:  # fmt: skip
        """Save the model into a repository of the Hugging Face hub, and return the address of the commit."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "model")
            return push_folder(Path(folder) / "model", repo, private=private, message=message, token=token)

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.model.parameters())
        return f"Pipeline({self.loaded.architecture}, {count:,} parameters)"


def load(
    source: str | Path,
    *,
    head: HeadKind | None = None,
    labels: Iterable[str] | None = None,
    dtype: str | torch.dtype | None = None,
    device: torch.device | str = "cpu",
    revision: str | None = None,
) -> Pipeline:
    """Load a model: a folder, a name on the Hugging Face hub (with its cache, revisions and offline mode),
    `s3://BUCKET/PREFIX`, a folder in an object store, or `package:NAME`, the model of an installed Python package.

    `dtype` is the folder's unless given; "auto" is bfloat16 where the device supports it. `head` with `labels` puts a
    new head on a pre-trained body.
    """
    target = choose_device(device)
    precision = choose_dtype(dtype, target)
    folder = ModelFolder.open(source, revision)
    loaded = open_folder(folder, head=head, labels=labels, dtype=precision, device=target)
    return Pipeline(loaded, folder=folder.path, fastest=dtype == "auto")
