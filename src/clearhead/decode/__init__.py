"""Writing: greedy, beam search and sampling over cached steps, of translators and of language models."""

from clearhead.decode.beam import Beam
from clearhead.decode.converse import reply
from clearhead.decode.ctranslate2 import export
from clearhead.decode.generate import generate, pieces, samplings
from clearhead.decode.pick import Sampling
from clearhead.decode.results import Generation, Hypothesis, Piece, Translation
from clearhead.decode.rules import Defaults, Rules, generation_config, read_defaults
from clearhead.decode.state import State, start
from clearhead.decode.translate import translate
from clearhead.decode.writer import Writer

__all__ = [
    "Beam",
    "Defaults",
    "Generation",
    "Hypothesis",
    "Piece",
    "Rules",
    "Sampling",
    "State",
    "Translation",
    "Writer",
    "export",
    "generate",
    "generation_config",
    "pieces",
    "read_defaults",
    "reply",
    "samplings",
    "start",
    "translate",
]
