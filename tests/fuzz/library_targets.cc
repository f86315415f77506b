// Parsers of the library's other files: weights, buffers to plan, recorded choices, documents of checkpoints.
#include <algorithm>

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "isochron/backends/common/choices_file.h"
#include "isochron/core/base/error.h"
#include "isochron/core/base/hash.h"
#include "isochron/core/files/file.h"
#include "isochron/memory/planner/plan_csv.h"
#include "isochron/nn/weights/safetensors.h"
#include "isochron/observe/export/page.h"
#include "isochron/train/callbacks/run_document.h"
#include "support/temp_folder.h"

namespace isochron::fuzz {
namespace {

void parse_safetensors_header(Input input) {
  uint64_t data_bytes = 0;
  for (int i = 0; i < 2 && !input.empty(); ++i, input = input.subspan(1)) {
    data_bytes = data_bytes << 8 | std::to_integer<uint64_t>(input[0]);
  }
  const nn::SafetensorsHeader header = nn::parse_safetensors_header(text_of(input), data_bytes, "input");
  uint64_t covered = 0;
  for (const nn::SafetensorsEntry& entry : header.entries) {
    demand(entry.begin == covered, "safetensors: a gap or an overlap");
    covered += entry.spec.size_bytes();
  }
  demand(covered == data_bytes, "safetensors: not all of the data is covered");
}

void parse_safetensors(Input input) {
  const nn::SafetensorsFile file(file_of(input));
  for (const nn::SafetensorsEntry& entry : file.entries()) {
    demand(file.read(entry.name).spec() == entry.spec, "safetensors: another tensor than the header says");
  }
}

void parse_plan(Input input) {
  const BufferTable table = read_buffers_csv(file_of(input));
  demand(table.ids.size() == table.requests.size(), "plan: ids and requests differ");
  for (const BufferRequest& request : table.requests)
    demand(request.lower < request.upper, "plan: an empty life");
}

/// The input unchanged; if it begins with '+', the rest of it between this machine's first lines and a
/// matching checksum.
void parse_choices(Input input) {
  static const TempFolder folder;
  static const std::string first_lines = [] {
    ops::write_choices_file(folder / "choices", {});
    const auto content = read_file(folder / "choices");
    const std::string_view text = text_of(content);
    return std::string(text.substr(0, text.find('\n', text.find('\n') + 1) + 1));
  }();
  if (!text_of(input).starts_with('+')) {
    ops::read_choices_file(file_of(input));
    return;
  }
  std::string text = first_lines + std::string(text_of(input).substr(1));
  text += fmt::format("end {:016x}\n", hash_more(kHashOfNothing, text));
  ops::read_choices_file(file_of(std::as_bytes(std::span(text))));
}

/// An accepted input can be written, read, judged and drawn.
void parse_run_record(Input input) {
  const observe::RunRecord record = observe::parse_run_record(text_of(input), "input");
  const std::string text = observe::to_json(record);
  demand(observe::to_json(observe::parse_run_record(text, "its own")) == text,
         "run_record: another one when read again");
  demand(!observe::record_page(record).empty(), "run_record: no page");
}

void parse_run_document(Input input) {
  const auto document = train::RunDocument::parse(std::string(text_of(input)), "input");
  const std::string text = document.str();
  demand(train::RunDocument::parse(text, "output").str() == text, "run document: written otherwise");
}

void parse_history(Input input) {
  const auto text_of_all = [](const std::vector<train::EpochRecord>& records) {
    std::string text;
    for (const train::EpochRecord& record : records) train::append_history(text, record);
    return text;
  };
  const std::string text = text_of_all(train::parse_history(text_of(input), "input"));
  demand(text_of_all(train::parse_history(text, "output")) == text, "history: written otherwise");
}

}  // namespace

std::vector<Target> internal::library_targets() {
  return {{"choices", parse_choices},
          {"history", parse_history},
          {"plan", parse_plan},
          {"run_document", parse_run_document},
          {"run_record", parse_run_record},
          {"safetensors", parse_safetensors},
          {"safetensors_header", parse_safetensors_header}};
}

}  // namespace isochron::fuzz
