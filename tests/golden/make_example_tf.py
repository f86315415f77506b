"""Writes example_tf.tfrecord: examples as TensorFlow writes them. Run: python make_example_tf.py (needs tensorflow)

    python make_example_tf.py --check FILE   reads a file that the tests wrote and demands that TensorFlow's parser finds
                                             the same examples in it
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

import golden

COUNT = 4


def values(i):
    """The features of example `i`, the same as in tests/data/example_test.cc."""
    return {
        "image": [bytes((7 * i + j) % 256 for j in range(6))],
        "label": np.array([i - 1], np.int64),
        "weights": np.array([0.5 * i, -1.25, 1e-30], np.float32),
        "tokens": np.array([(j - 1) * 2**40 for j in range(i)], np.int64),
        "names": [b"a", b"", b"\xff\x00"][:i],
    }


def feature(value):
    if isinstance(value, list):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if value.dtype == np.int64:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=value))
    return tf.train.Feature(float_list=tf.train.FloatList(value=value))


def write(path):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in range(COUNT):
            features = {name: feature(value) for name, value in values(i).items()}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString(deterministic=True))
    print(f"{path.name}: {COUNT} examples, {path.stat().st_size} bytes, TensorFlow {tf.__version__}")


def check(path):
    specs = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([1], tf.int64),
        "weights": tf.io.FixedLenFeature([3], tf.float32),
        "tokens": tf.io.VarLenFeature(tf.int64),
        "names": tf.io.VarLenFeature(tf.string),
    }
    count = 0
    for i, record in enumerate(tf.data.TFRecordDataset(path)):
        parsed = tf.io.parse_single_example(record, specs)
        expected = values(i)
        assert parsed["image"].numpy() == expected["image"][0]
        for name in ("label", "weights"):
            np.testing.assert_array_equal(parsed[name].numpy(), expected[name])
        np.testing.assert_array_equal(parsed["tokens"].values.numpy(), expected["tokens"])
        assert list(parsed["names"].values.numpy()) == expected["names"]
        count += 1
    assert count == COUNT, f"expected {COUNT} examples, got {count}"
    print(f"{path}: {count} examples read by TensorFlow {tf.__version__}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        check(sys.argv[2])
    else:
        write(pathlib.Path(golden.FOLDER) / "example_tf.tfrecord")
