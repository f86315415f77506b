#!/usr/bin/env python3
"""Reads the scalars of a folder of event files with TensorBoard's own reader and prints them, one a line.

usage: check_events_tensorboard.py FOLDER
"""

import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1])
events.Reload()
for tag in sorted(events.Tags()["scalars"]):
    print(tag, *(f"{event.step}:{event.value:.6g}" for event in events.Scalars(tag)))
