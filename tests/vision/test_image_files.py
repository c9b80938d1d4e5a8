"""Reading images: every mode and orientation as a viewer shows it; hostile and damaged files refused by name."""

import contextlib
import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from clearhead.vision import UnreadableImage, read_image
from clearhead.vision.image_files import MAX_BYTES, to_pil, to_tensor

ORIENTATION = 0x0112


def saved(image: Image.Image, format: str = "PNG", **options) -> bytes:
    target = io.BytesIO()
    image.save(target, format, **options)
    return target.getvalue()


@pytest.fixture
def image() -> Image.Image:
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (6, 9, 3), dtype="u1"))


def pixels(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_are_equal(image, format, tmp_path):
    path = tmp_path / "image"
    path.write_bytes(saved(image, format))
    assert torch.equal(read_image(path), pixels(image))
    assert torch.equal(to_tensor(to_pil(read_image(path))), pixels(image))


@pytest.mark.parametrize("turn", range(1, 9))
def test_pictures_are_upright(image, turn):
    exif = Image.Exif()
    exif[ORIENTATION] = turn
    x = pixels(image)
    flipped = {1: x, 2: x.flip(2), 3: x.flip(1, 2), 4: x.flip(1), 5: x.transpose(1, 2),
               6: x.transpose(1, 2).flip(2), 7: x.transpose(1, 2).flip(1, 2), 8: x.transpose(1, 2).flip(1)}  # fmt: skip
    assert torch.equal(read_image(saved(image, exif=exif)), flipped[turn])


def test_transparent_parts_are_white():
    image = Image.new("RGBA", (2, 1), (10, 20, 30, 255))
    image.putpixel((1, 0), (10, 20, 30, 0))
    assert read_image(saved(image))[:, 0].T.tolist() == [[10, 20, 30], [255, 255, 255]]
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((1, 0), 1)
    assert read_image(saved(palette, transparency=1))[:, 0].T.tolist() == [[10, 20, 30], [255, 255, 255]]
    assert read_image(saved(palette))[:, 0].T.tolist() == [[10, 20, 30], [40, 50, 60]]
    gray = Image.new("LA", (1, 1), (77, 0))
    assert read_image(saved(gray)).flatten().tolist() == [255] * 3


def test_sixteen_bits_become_eight():
    values = np.array([[0, 257, 32896, 65535]], dtype="u2")
    assert read_image(saved(Image.fromarray(values)))[0].tolist() == [[0, 1, 128, 255]]
    floats = Image.fromarray(np.array([[-1.0, 0.0, 1.0]], dtype="f4"))
    assert read_image(saved(floats, "TIFF"))[0].tolist() == [[0, 128, 255]]


def test_other_modes(image):
    assert torch.equal(read_image(saved(image.convert("1")))[0], pixels(image.convert("1"))[0])
    cmyk = saved(Image.new("CMYK", (3, 2), (255, 0, 0, 0)), "TIFF")
    assert read_image(cmyk)[:, 0, 0].tolist() == [0, 255, 255]
    assert read_image(saved(Image.new("RGB", (1, 1), (1, 2, 3)))).flatten().tolist() == [1, 2, 3]


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_taken(format):
    frames = [Image.new("RGB", (4, 4), color) for color in ((250, 0, 0), (0, 250, 0))]
    options = {} if format == "GIF" else {"lossless": True} if format == "WEBP" else {}
    content = saved(frames[0], format, save_all=True, append_images=frames[1:], **options)
    assert read_image(content)[:, 0, 0].tolist() == [250, 0, 0]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(side: int) -> bytes:
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(2**20))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no image"),
        (b"hello", "no image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no image"),
        (bomb(15_000), "too many pixels"),
        (bomb(8_000), "8,000 x 8,000 pixels are more than 50,000,000"),
        (bomb(2**31 - 1), "pixels"),
        (bomb(100)[:60], "damaged"),
    ],
    ids=["empty", "text", "postscript", "svg", "225 megapixels", "64 megapixels", "four exapixels", "cut"],
)
def test_hostile_files_are_refused_by_name(content, reason, tmp_path):
    path = tmp_path / "evil.png"
    path.write_bytes(content)
    with pytest.raises(UnreadableImage, match=reason) as caught:
        read_image(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_truncated_files_are_refused(format):
    rng = np.random.default_rng(0)
    content = saved(Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype="u1")), format)
    for share in (0.3, 0.6, 0.9):
        with pytest.raises(UnreadableImage, match="bytes of an image"):
            read_image(content[: int(share * len(content))], name="bytes of an image")


def test_random_damage_never_escapes(image):
    content = saved(image.resize((64, 64)), "JPEG")
    rng = np.random.default_rng(1)
    for _ in range(200):
        damaged = bytearray(content)
        for at in rng.integers(0, len(content), 5):
            damaged[at] = int(rng.integers(256))
        with contextlib.suppress(UnreadableImage):
            assert read_image(bytes(damaged)).shape[0] == 3


def test_files_beyond_the_limits(tmp_path, image):
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UnreadableImage, match="bytes are more than"):
        read_image(path)
    with pytest.raises(UnreadableImage, match="no such file"):
        read_image(tmp_path / "none.png")
    with pytest.raises(UnreadableImage, match="9 x 6 pixels are more than 50"):
        read_image(saved(image), max_pixels=50)
