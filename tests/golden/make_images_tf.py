"""Writes images_tf.npz: small JPEG and PNG files and the pixels that TensorFlow decodes from them.

Run: python make_images_tf.py (needs tensorflow). The PNG forms that TensorFlow doesn't write are put together here.
"""

import struct
import zlib

import numpy as np
import tensorflow as tf

import golden

HEIGHT, WIDTH = 9, 13


def picture(channels):
    """Smooth waves with some noise, so that JPEG has something to do."""
    rng = np.random.default_rng([golden.SEED, channels])
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    waves = [127 + 90 * np.sin(0.3 * (c + 1) * x + 0.4 * y + c) for c in range(channels)]
    return np.clip(np.stack(waves, -1) + rng.integers(-20, 20, (HEIGHT, WIDTH, channels)), 0, 255).astype(np.uint8)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(rows, width, height, depth, colour_type, before=b"", interlace=0):
    """A PNG of `rows`, each the bytes of one row (of one pass after the other where interlaced), unfiltered."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, interlace)
    content = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def interlaced(pixels):
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = []
    for top, left, down, across in passes:
        for row in pixels[top::down, left::across]:
            if row.size:
                rows.append(row.tobytes())
    return rows


def files():
    grey, colour, alpha = picture(1), picture(3), picture(4)
    indices = (colour[:, :, 0] // 64).astype(np.uint8)
    palette = bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30])
    packed = [np.packbits((row[:, None] >> np.array([1, 0])) & 1).tobytes() for row in indices]
    return {
        "jpeg_colour": tf.io.encode_jpeg(colour, quality=90).numpy(),
        "jpeg_grey": tf.io.encode_jpeg(grey, format="grayscale", quality=80).numpy(),
        "jpeg_progressive": tf.io.encode_jpeg(colour, progressive=True, chroma_downsampling=False).numpy(),
        "png_colour": tf.io.encode_png(colour).numpy(),
        "png_grey": tf.io.encode_png(grey).numpy(),
        "png_alpha": tf.io.encode_png(alpha).numpy(),
        "png_palette": png(packed, WIDTH, HEIGHT, 2, 3, chunk(b"PLTE", palette)),
        "png_palette_alpha": png(packed, WIDTH, HEIGHT, 2, 3, chunk(b"PLTE", palette) + chunk(b"tRNS", b"\x80\x00")),
        "png_grey_1_bit": png([np.packbits(row > 127).tobytes() for row in grey[:, :, 0]], WIDTH, HEIGHT, 1, 0),
        "png_grey_alpha": png([row.tobytes() for row in alpha[:, :, :2]], WIDTH, HEIGHT, 8, 4),
        "png_interlaced": png(interlaced(colour), WIDTH, HEIGHT, 8, 2, interlace=1),
    }


def main():
    arrays = {}
    for name, content in files().items():
        arrays[f"{name}.file"] = np.frombuffer(content, np.uint8)
        for channels in (1, 3, 4):
            if channels == 4 and name in ("png_palette", "png_grey_1_bit"):
                continue  # TensorFlow adds 2^depth - 1 as alpha there
            if name.startswith("jpeg"):
                if channels == 4 or (channels == 1 and name != "jpeg_grey"):
                    continue
                pixels = tf.io.decode_jpeg(content, channels, dct_method="INTEGER_ACCURATE")
            else:
                pixels = tf.io.decode_png(content, channels)
            arrays[f"{name}.pixels{channels}"] = pixels.numpy()
    golden.save("images_tf.npz", arrays, __file__, {"tensorflow": tf.__version__})


if __name__ == "__main__":
    main()
