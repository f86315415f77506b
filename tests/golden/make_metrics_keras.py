"""Writes metrics_keras.npz: metrics over three unequal batches, with and without sample weights, by Keras in f64.
Run: python make_metrics_keras.py

Keras runs on its JAX backend, for the reason given in make_optimizers_keras.py.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import keras
import numpy as np

import golden

SIZES = (7, 20, 13)
CLASSES = 4


def yes_or_no(m):
    return {
        "binary_accuracy": m.BinaryAccuracy(threshold=0.4),
        "precision": m.Precision(thresholds=0.4),
        "recall": m.Recall(thresholds=0.4),
        "auc_roc": m.AUC(),
        "auc_pr": m.AUC(curve="PR"),
        "auc_roc_coarse": m.AUC(num_thresholds=5),
        "auc_pr_coarse": m.AUC(num_thresholds=5, curve="PR"),
    }


def classes(m):
    return {
        "accuracy": m.CategoricalAccuracy(),
        "top2": m.TopKCategoricalAccuracy(k=2),
        "f1_macro": m.F1Score(average="macro"),
        "f1_micro": m.F1Score(average="micro"),
        "f1_weighted": m.F1Score(average="weighted"),
        "f1_per_class": m.F1Score(average=None),
        "f2_macro": m.FBetaScore(average="macro", beta=2.0),
    }


def numbers(m):
    return {
        "mae": m.MeanAbsoluteError(),
        "mse": m.MeanSquaredError(),
        "rmse": m.RootMeanSquaredError(),
        "r2": m.R2Score(),
    }


def main():
    keras.config.set_floatx("float64")
    rng = np.random.default_rng(golden.SEED)
    arrays = {"sizes": np.array(SIZES, dtype=np.int64)}
    rows = sum(SIZES)
    truth = (rng.uniform(size=(rows, 1)) < 0.4).astype(np.float64)
    labels = rng.integers(0, CLASSES, rows)
    scores = rng.standard_normal((rows, CLASSES)) + np.eye(CLASSES)[labels]
    target = rng.standard_normal((rows, 2)) * [1.0, 30.0] + [1000.0, -3.0]
    data = {
        "yes_or_no": (np.clip(0.3 * truth + rng.uniform(0, 0.7, (rows, 1)), 0, 1), truth, yes_or_no),
        "classes": (scores, np.eye(CLASSES)[labels], classes),
        "numbers": (target + rng.standard_normal((rows, 2)), target, numbers),
    }
    weights = rng.uniform(0.1, 2, rows)
    arrays |= {"weights": weights, "labels": labels.astype(np.int64)}
    for family, (prediction, truth, make) in data.items():
        arrays |= {f"{family}.prediction": prediction, f"{family}.target": truth}
        for suffix, sample_weight in (("", None), (".weighted", weights)):
            for name, metric in make(keras.metrics).items():
                begin = 0
                for size in SIZES:
                    part = slice(begin, begin + size)
                    of_part = None if sample_weight is None else sample_weight[part]
                    metric.update_state(truth[part], prediction[part], sample_weight=of_part)
                    begin += size
                arrays[f"{name}{suffix}"] = np.asarray(metric.result(), dtype=np.float64)
    golden.save("metrics_keras.npz", arrays, __file__, {"keras": keras.__version__, "jax": jax.__version__})


if __name__ == "__main__":
    main()
