// Datasets over files: the readers of the formats as sources of the pipeline. Files of records are streams,
// read in the order given; what can be found by number (tokens, images, arrays) is rows.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "isochron/core/files/record_file.h"
#include "isochron/data/formats/csv.h"
#include "isochron/data/formats/example.h"
#include "isochron/data/formats/text_lines.h"
#include "isochron/data/formats/token_file.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/sources/image_folder.h"

namespace isochron::data {

using Paths = std::vector<std::filesystem::path>;

/// The records of TFRecord files: "record", u8 (bytes), the number of which varies. All throw
/// kInvalidArgument for no file; opening and reading throw as the reader does, on delivery.
Dataset from_records(Paths files, const RecordReaderOptions& options = {});
/// The same, taken apart as tf.train.Example: one tensor a feature, under its name. A feature without a shape
/// is (values), their number varying; a string's bytes, u8. Throws as ExampleParser.
Dataset from_examples(Paths files, const std::vector<FeatureSpec>& features,
                      const RecordReaderOptions& options = {});
/// The lines of text files: "line", u8 (bytes), the number of which varies.
Dataset from_text_lines(Paths files, const TextLineOptions& options = {});
/// The rows of CSV files, which have the same columns: "row", f64 (columns). Reads as far as the first row of
/// the first file, to learn their number.
Dataset from_csv(Paths files, const CsvOptions& options = {});

/// Windows of a file of tokens, as TokenFile has them: "tokens".
Dataset from_tokens(const std::filesystem::path& file, const TokenFileOptions& options = {});
/// The images of a folder and their classes: "image", (height, width, channels), and "label", i64 (). An
/// ImageFolder of the same arguments knows the classes' names.
Dataset from_images(const std::filesystem::path& folder, const ImageFolderOptions& options);
/// Rows of NPY files under the names given, read one by one, so that files may be as large as may be;
/// little-endian, in C order, equal in their first extent. Throws kIo, also on delivery where a file has been
/// cut short; kBadFormat with the byte offset, kUnsupported, kShapeMismatch.
Dataset from_npy(const std::vector<std::pair<std::string, std::filesystem::path>>& files);

}  // namespace isochron::data
