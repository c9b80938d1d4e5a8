"""Search by CTranslate2, with the results of clearhead's own decoder.

A model is exported once (`export.ctranslate2_cache`). The length penalty is the same, and both count the end token.
Three things differ. A beam search stops when `beam.size` hypotheses have ended, which is `early_stopping: true`. Where
tokens are forbidden, probabilities are those among the others. And it does not know ends that are forced at the length
limit: they are added here.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from clearhead.decode.beam import BeamConfig, BeamHypothesis
from clearhead.decode.generator import Source, TextGenerator
from clearhead.export.ctranslate2 import build_spec, token_names
from clearhead.export.ctranslate2_cache import cached_export
from clearhead.hub.generation_config import GenerationConstraints

_NO_PENALTY = 1e-30  # as 0, with which CTranslate2 has another rule to stop


def unsupported_settings(constraints: GenerationConstraints, early_stopping: object) -> str | None:
    """Return the settings of generation_config.json that CTranslate2 cannot apply, or None."""
    used = {
        "forced_bos_token_id": constraints.forced_bos_token_id is not None,
        "begin_suppress_tokens": bool(constraints.begin_suppress_tokens),
        "bad_words_ids with sequences of tokens": any(len(run) > 1 for run in constraints.bad_words_ids),
        "repetition_penalty": constraints.repetition_penalty != 1.0,
        "no_repeat_ngram_size": constraints.no_repeat_ngram_size > 0,
        "several values of eos_token_id": len(constraints.eos_token_ids) > 1,
        "forced_eos_token_id other than eos_token_id": not set(constraints.forced_eos_token_ids)
        <= set(constraints.eos_token_ids),
        "early_stopping: never": early_stopping == "never",
    }
    named = [name for name, is_used in used.items() if is_used]
    return ", ".join(named) if named else None


class CTranslate2Search:
    """An exported model in memory, which searches for translations as `TextGenerator.search` does."""

    def __init__(self, generator: TextGenerator, folder: Path | None, compute_type: str) -> None:
        """Export the model, or find its export beside `folder`; ValueError names what is not supported."""
        import ctranslate2

        self.compute_type = compute_type
        self._constraints = constraints = generator.defaults.constraints
        self._generator = generator
        self._names = token_names(generator.model, generator.tokenizer)
        self._ids = {name: i for i, name in enumerate(self._names)}

        def load() -> ctranslate2.Translator:
            spec = build_spec(generator.model, generator.tokenizer, constraints)
            export = str(cached_export(spec, folder, compute_type))
            threads = torch.get_num_threads()
            return ctranslate2.Translator(export, device="cpu", compute_type=compute_type, intra_threads=threads)

        try:
            self._translator = load()
        except RuntimeError:  # another process has just replaced the export by that of other weights
            self._translator = load()

    def search(self, sources: Sequence[Source], beam: BeamConfig, max_new_tokens: int) -> list[list[BeamHypothesis]]:
        """Return the best hypotheses for each source."""
        constraints = self._constraints
        forced = constraints.forced_eos_token_ids[:1]
        limit = max_new_tokens - len(forced)
        if not limit or not all(len(source) for source in sources):  # CTranslate2 searches neither
            return self._generator.search(sources, beam, max_new_tokens)
        exact_stop = beam.length_penalty == 0.0 and beam.early_stopping is False and beam.nbest == 1
        results = self._translator.translate_batch(
            [[self._names[int(i)] for i in source] for source in sources],
            beam_size=beam.size,
            num_hypotheses=beam.size if forced and not exact_stop else beam.nbest,
            length_penalty=0.0 if exact_stop else beam.length_penalty or _NO_PENALTY,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=max(constraints.min_new_tokens, constraints.min_len - 1, 0),
            return_scores=True,
            return_end_token=True,
        )
        found: list[list[BeamHypothesis]] = []
        for result in results:
            texts = [tuple(self._ids[name] for name in text) for text in result.hypotheses]
            scored = zip(texts, result.scores, strict=True)
            found.append([BeamHypothesis(ids, score, constraints.ended(ids, max_new_tokens)) for ids, score in scored])
        return self._force_ends(sources, found, beam, max_new_tokens) if forced else found

    def _force_ends(
        self, sources: Sequence[Source], found: list[list[BeamHypothesis]], beam: BeamConfig, max_new_tokens: int
    ) -> list[list[BeamHypothesis]]:
        """Return the results with the end that is forced at the limit, which has no score.

        Of a beam, the hypotheses that get one compete with those that ended before: clearhead's decoder searches again.
        """
        open_ended = [i for i, best in enumerate(found) if not all(one.ended for one in best)]
        if beam.size > 1 and open_ended:
            again = self._generator.search([sources[i] for i in open_ended], beam, max_new_tokens)
            for i, best in zip(open_ended, again, strict=True):
                found[i] = best
        elif open_ended:
            for i in open_ended:
                ids = (*found[i][0].ids, self._constraints.forced_eos_token_ids[0])
                score = found[i][0].score * ((len(ids) - 1) / len(ids)) ** beam.length_penalty
                found[i] = [BeamHypothesis(ids, score, False)]
        return [best[: beam.nbest] for best in found]
