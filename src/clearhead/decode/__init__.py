"""Text generation: greedy, beam search and sampling with a KV cache, for translation and language models."""

from clearhead.decode.beam import BeamConfig
from clearhead.decode.caption import Caption, caption
from clearhead.decode.chat import chat
from clearhead.decode.generate import generate, sampling_params, stream
from clearhead.decode.generator import TextGenerator
from clearhead.decode.results import Generation, Hypothesis, StreamChunk, Translation
from clearhead.decode.sampler import SamplingParams
from clearhead.decode.state import DecoderState, initial_state
from clearhead.decode.translate import translate, translate_in_order
from clearhead.decode.translation_engine import SelectedEngine, TranslationEngine
from clearhead.export.ctranslate2 import export
from clearhead.hub.generation_config import GenerationConstraints, GenerationDefaults, generation_config, read_defaults

__all__ = [
    "BeamConfig", "Caption", "DecoderState", "Generation", "GenerationConstraints", "GenerationDefaults",
    "Hypothesis", "SamplingParams", "SelectedEngine", "StreamChunk", "TextGenerator", "Translation",
    "TranslationEngine", "caption", "chat", "export", "generate", "generation_config", "initial_state",
    "read_defaults", "sampling_params", "stream", "translate", "translate_in_order",
]  # fmt: skip
