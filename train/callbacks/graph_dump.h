// Writes the graphs of every captured function of the process, at each stage from trace to plan, to files for
// Graphviz and TensorBoard (docs/export.md).
//
//   FOLDER/01-train_step/00-forward.dot           dot -Tsvg
//   FOLDER/01-train_step/00-forward/events.out... tensorboard --logdir FOLDER: one run per stage
//   FOLDER/stages.csv                             one line per stage, with the numbers of `table`
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "isochron/graph/step/stages.h"

namespace isochron::train {

/// Writes everything that is traced during its lifetime. At most one may exist at a time.
class GraphDump {
 public:
  // Traces and stages beyond these limits are counted in left_out(), not written.
  static constexpr size_t kMaxTraces = 64;
  static constexpr size_t kMaxStages = 32;  // per trace

  /// Creates the folder if it is missing. Throws kIo.
  explicit GraphDump(std::filesystem::path folder);
  ~GraphDump();
  GraphDump(const GraphDump&) = delete;
  GraphDump& operator=(const GraphDump&) = delete;

  struct Stage {
    int64_t trace = 0;
    std::string function;
    std::string signature;
    std::string name;
    size_t nodes = 0;   // including those in bodies of loops and conditionals
    size_t bound = 0;   // variables and constants read or updated
    size_t bytes = 0;   // of all results
    size_t number = 0;  // in its trace, from 0
  };
  const std::vector<Stage>& stages() const { return stages_; }
  size_t left_out() const { return left_out_; }
  /// A readable table: nodes and bytes of each stage, trace by trace, with aligned columns.
  std::string table() const;
  /// Writes stages.csv: trace, function, signature, number, stage, nodes, bound, result_bytes. Throws kIo.
  void write_csv() const;

 private:
  void take(const graph::GraphStage& stage);

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::vector<Stage> stages_;
  size_t left_out_ = 0;
};

}  // namespace isochron::train
