// Datasets over files: the format readers as sources of the pipeline. Files of records are streams, read in
// the given order; data that can be accessed by number (tokens, images, arrays) are rows.
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

/// The records of TFRecord files: "record", u8 (bytes), of varying length. All these functions throw
/// kInvalidArgument for no file. Errors of opening and reading are thrown on delivery, as by the reader.
Dataset from_records(Paths files, const RecordReaderOptions& options = {});
/// The same records, parsed as tf.train.Example: one tensor per feature, under its name. A feature without a
/// shape is (values), of varying length; a string is its bytes, u8. Throws like ExampleParser.
Dataset from_examples(Paths files, const std::vector<FeatureSpec>& features,
                      const RecordReaderOptions& options = {});
/// The lines of text files: "line", u8 (bytes), of varying length.
Dataset from_text_lines(Paths files, const TextLineOptions& options = {});
/// The rows of CSV files with the same columns, as numbers: "row", (columns) of CsvOptions::dtype. Fields of
/// CsvOptions::categories become the indices of their texts. This call reads the first file up to its first
/// row, to learn the number of columns.
Dataset from_csv(Paths files, const CsvOptions& options = {});

/// Windows of a file of tokens, the rows of TokenFile: "tokens".
Dataset from_tokens(const std::filesystem::path& file, const TokenFileOptions& options = {});
/// The images of a folder and their classes: "image", (height, width, channels), and "label", i64 (). An
/// ImageFolder of the same arguments knows the classes' names.
Dataset from_images(const std::filesystem::path& folder, const ImageFolderOptions& options);
/// Rows of NPY files under the given names, read one by one, so that files may have any size. Files must be
/// little-endian, in C order, and have equal first extents. Throws kIo, also on delivery if a file has been
/// truncated since; kBadFormat with the byte offset, kUnsupported, kShapeMismatch.
Dataset from_npy(const std::vector<std::pair<std::string, std::filesystem::path>>& files);

}  // namespace isochron::data
