"""Runs texts through a model, captures its attention and returns a scene."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from clearhead.decode import BeamConfig, TextGenerator, translate
from clearhead.hub.folder import LoadedModel
from clearhead.models.heads import LMHead
from clearhead.viz.ablation_probe import AblationProbe
from clearhead.viz.captured_run import look
from clearhead.viz.scene import Scene


def record_scene(
    loaded: LoadedModel,
    texts: Sequence[str],
    pairs: Sequence[str | None] | None = None,
    *,
    title: str = "",
    answers: bool = True,
) -> Scene:
    """Return a scene of the model's attention over these texts.

    `pairs` are second texts: for an encoder-decoder the target (default: its own translation), for an encoder the
    second sentence. With `answers`, the scene holds the model's predictions and can compute them with heads ablated.
    """
    if not texts:
        raise ValueError("there are no texts: give at least one")
    if empty := [i for i, text in enumerate(texts) if not text.strip()]:
        raise ValueError(f"text {empty[0]} is empty: give at least one word")
    tokenizer, model = loaded.require_tokenizer, loaded.model
    second = list(pairs) if pairs is not None else [None] * len(texts)
    with torch.inference_mode(), look(model, tokenizer=tokenizer) as captured:
        if model.encoder is not None and model.decoder is not None and isinstance(model.head, LMHead):
            _run_translator(TextGenerator.from_model(loaded), texts, second)
        else:
            second_texts = None if all(p is None for p in second) else [p or "" for p in second]
            tokens = tokenizer(list(texts), second_texts, max_len=loaded.max_len)
            model.hidden_states(tokens.ids, tokens.layout, segments=tokens.segments if loaded.has_segments else None)
    captured.model = loaded.architecture
    if not answers:
        return captured.scene(title=title)
    probe = AblationProbe(loaded, texts, second)
    return replace(captured.scene(title=title, answers=probe.answers()), ablated=probe.ablate)


def _run_translator(generator: TextGenerator, texts: Sequence[str], targets: Sequence[str | None]) -> None:
    if all(target is None for target in targets):
        for _ in translate(generator, list(texts), BeamConfig(size=5)):
            pass  # with a capture active, all translations get one final pass together
        return
    if any(target is None for target in targets):
        raise ValueError("some texts have a translation and some do not: give one for every text or for none")
    sources = generator.tokenizer(list(texts), max_len=generator.max_source_len)
    outputs = generator.tokenizer([str(t) for t in targets])
    generator.attend(
        [part.tolist() for part in sources.layout.split(sources.ids)],
        [part.tolist() for part in outputs.layout.split(outputs.ids)],
    )
