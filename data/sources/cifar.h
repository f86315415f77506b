// CIFAR-10 and CIFAR-100 in their binary form (Krizhevsky: "Learning Multiple Layers of Features from Tiny
// Images", 2009).
#pragma once

#include <filesystem>

#include "isochron/data/sources/datasets.h"

namespace isochron::data {

struct Cifar10 {
  LabelledImages train;  // f32 (N, 32, 32, 3), values in [0, 1]; of data_batch_1.bin to data_batch_5.bin
  LabelledImages test;   // of test_batch.bin
};

/// Reads the files in `folder`, or in its folder cifar-10-batches-bin, to which the archive unpacks. A file
/// consists of records of 3,073 bytes: a label 0..9, then 32 x 32 red, green and blue values in planes, row
/// by row. Reads as many data_batch files as exist, from 1 on. Every size is checked before memory is
/// allocated. Throws kIo for a missing file; kBadFormat naming file, byte offset and record for no record, an
/// incomplete record, a label out of range, or a file of more than 100,000 records; kOutOfMemory beyond the
/// memory budget (data/element/pipeline_memory.h).
Cifar10 load_cifar10(const std::filesystem::path& folder);

struct LabelledCifar100 {
  Tensor images;         // f32 (N, 32, 32, 3), values in [0, 1]
  Tensor labels;         // i64 (N), the fine classes, values in [0, 100)
  Tensor coarse_labels;  // i64 (N), their superclasses, values in [0, 20)
};

struct Cifar100 {
  LabelledCifar100 train;  // of train.bin
  LabelledCifar100 test;   // of test.bin
};

/// Reads the files in `folder`, or in its folder cifar-100-binary, to which the archive unpacks. A record
/// has two labels, coarse and fine, before its pixels: 3,074 bytes. Throws like `load_cifar10`.
Cifar100 load_cifar100(const std::filesystem::path& folder);

}  // namespace isochron::data
