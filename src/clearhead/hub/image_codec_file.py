"""The file of a model folder that holds its image codec."""

from collections.abc import Mapping

from safetensors import SafetensorError
from safetensors.torch import load, save

from clearhead.vision.image_codec import ImageCodec, ImageCodecConfig
from clearhead.vision.image_processor import find_image_processor

CODEC_FILE = "image_codec.safetensors"


def codec_file(codec: ImageCodec) -> dict[str, bytes]:
    """Return the file that holds a codec; the size of its images is in the processor's file."""
    return {CODEC_FILE: save({name: tensor.contiguous() for name, tensor in codec.state_dict().items()})}


def find_codec(files: Mapping[str, bytes]) -> ImageCodec | None:
    """Return the codec in the files of a model folder; None if it has none."""
    content, processor = files.get(CODEC_FILE), find_image_processor(files)
    if content is None or processor is None:
        return None
    try:
        tensors = load(content)
        num_codes, code_width = tensors["codes.weight"].shape
        config = ImageCodecConfig(
            image_size=processor.output_size[0], num_codes=num_codes, code_width=code_width,
            width=len(tensors["encoder.0.bias"]),
        )  # fmt: skip
        codec = ImageCodec(config)
        codec.load_state_dict(tensors)
    except (SafetensorError, KeyError, RuntimeError, ValueError) as error:
        raise ValueError(f"{CODEC_FILE} does not hold an image codec: {error}") from None
    return codec.eval()
