// Tied weights: a text model uses one table both for the vectors of its input and for the scores of its
// output. A parameter that a model lists or uses twice is still one parameter: its gradients are summed, an
// optimizer updates it once, and a file contains it once.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "isochron/isochron.h"

using namespace isochron;

constexpr int64_t kLetters = 27;  // a to z and the space
constexpr int64_t kSeen = 6;      // letters from which the next one is predicted

/// The next letter from the last six. x: (N, 6), scores (N, 27).
class NextLetter : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override {
    const Tensor vectors = reshape(table_(x), {x.extent(0), -1});
    return table_.scores(mixed_(hidden_(vectors)));
  }
  void members(nn::Members& list) override { list("table", table_)("hidden", hidden_)("mixed", mixed_); }
  const Variable& table() const { return table_.table(); }

 private:
  static constexpr int64_t kWidth = 24;
  nn::Embedding table_{kLetters, kWidth, {.initializer = nn::init::normal(0, 0.3)}};
  nn::Dense hidden_{64, nn::Activation::kTanh};
  nn::Dense mixed_{kWidth};
};

int main() {
  const std::string text =
      "every iteration takes the same time and the framework proves that it does by measuring each of them ";
  std::vector<double> seen, next;
  const auto letter = [&](size_t i) {
    const char c = text[i % text.size()];
    return c == ' ' ? 26.0 : static_cast<double>(c - 'a');
  };
  for (size_t i = 0; i < text.size(); ++i) {
    for (size_t k = 0; k < kSeen; ++k) seen.push_back(letter(i + k));
    next.push_back(letter(i + kSeen));
  }
  const auto rows = static_cast<int64_t>(text.size());
  const Tensor x = from_vector({rows, kSeen}, seen, DType::kI64);
  const Tensor y = from_vector({rows}, next, DType::kI64);

  NextLetter model;
  optim::AdamW optimizer({.learning_rate = 1e-2, .weight_decay = {.rate = 1e-4}});
  auto step = capture([&](const Tensor& letters, const Tensor& following) {
    const Tensor loss = nn::sparse_softmax_cross_entropy(model(letters), following);
    optimizer.minimize(loss, model.parameters());
    return loss;
  });
  double loss = 0;
  for (int i = 0; i < 300; ++i) loss = step(x, y).item<double>();

  const int64_t count = model.parameter_count();
  fmt::print("loss {:.4f} with {} parameters; untied there would be {}\n", loss, count,
             count + model.table().elems());

  // The model writes its text from memory.
  std::string written = text.substr(0, kSeen);
  while (written.size() < text.size()) {
    std::vector<double> last;
    for (const char c : written.substr(written.size() - kSeen)) last.push_back(c == ' ' ? 26 : c - 'a');
    const std::vector<double> scores = model(from_vector({1, kSeen}, last, DType::kI64)).to_vector();
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    written += best == 26 ? ' ' : static_cast<char>('a' + best);
  }
  fmt::print("{}\n", written);
  return loss < 0.1 && written == text && model.parameters().size() == 5 ? 0 : 1;
}
