#!/usr/bin/env python3
"""Prints what Keras's ReduceLROnPlateau and EarlyStopping make of the sequences in tests/train/callback_test.cc."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy

VALUES = [5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 4]


def model():
    built = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    built.compile(keras.optimizers.SGD(1.0), "mse")
    return built


def rates(values, **options):
    callback = keras.callbacks.ReduceLROnPlateau(**options)
    callback.set_model(model())
    callback.on_train_begin()
    result = []
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, {"val_loss": value})
        result.append(float(numpy.round(callback.model.optimizer.learning_rate.numpy(), 6)))
    return result


def stopped(values, **options):
    callback = keras.callbacks.EarlyStopping(**options)
    built = model()
    built.stop_training = False
    callback.set_model(built)
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, {"val_loss": value})
        if built.stop_training:
            return epoch + 1
    return 0


print("keras", keras.__version__)
print("cooled", rates(VALUES, factor=0.5, patience=2, cooldown=2))
print("min_lr", rates([5, 5, 5, 5], factor=0.5, patience=1, min_lr=0.4))
print("min_delta", rates([5, 4.6, 4.4, 4.4], factor=0.5, patience=1, min_delta=0.5))
print("max", rates([5, 6, 6], factor=0.5, patience=1, mode="max"))
print("patience", stopped([5, 3, 4, 2, 2, 2.5, 1], patience=2, monitor="val_loss", mode="min"))
print("no patience", stopped([1, 2, 3, 3, 4], mode="max"))
print("delta", stopped([5, 4, 3.6, 1], min_delta=0.5, mode="min"))
print("baseline met", stopped([5, 4, 3.5, 3.4], patience=2, baseline=3, mode="min"))
print("baseline", stopped([5, 5, 2], patience=2, baseline=3, mode="min"))
print("late", stopped([1, 2, 3, 4], start_from_epoch=2, mode="min"))
