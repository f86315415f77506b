#include "isochron/backends/cuda/optimizer/update_settings.h"

#include "isochron/backends/cuda/common/kernel_text.h"
#include "isochron/backends/cuda/common/texts.h"

namespace isochron::ops {

std::string settings_text(const element::UpdateSettings& settings) {
  static_assert(sizeof(element::UpdateNumbers) == 16 * sizeof(double), "set the new number below, too");
  std::string text = "  UpdateSettings settings;\n";
  const auto set = [&text](std::string_view field, double value) {
    text += fmt::format("  settings.{} = {};\n", field, exact_text(value));
  };
  set("fixed.momentum", settings.fixed.momentum);
  set("fixed.new_1", settings.fixed.new_1);
  set("fixed.old_2", settings.fixed.old_2);
  set("fixed.new_2", settings.fixed.new_2);
  set("fixed.epsilon_inside", settings.fixed.epsilon_inside);
  set("fixed.epsilon_outside", settings.fixed.epsilon_outside);
  set("fixed.eta_minus", settings.fixed.eta_minus);
  set("fixed.eta_plus", settings.fixed.eta_plus);
  set("fixed.min_step", settings.fixed.min_step);
  set("fixed.max_step", settings.fixed.max_step);
  set("beta_1", settings.beta_1);
  set("beta_2", settings.beta_2);
  set("fading", settings.fading);
  text += fmt::format(
      "  settings.correction = static_cast<Correction>({});\n  settings.epsilon_after_correction = {};\n"
      "  settings.rate_in_velocity = {};\n",
      static_cast<int>(settings.correction), settings.epsilon_after_correction, settings.rate_in_velocity);
  return text;
}

void add_update_texts(cuda::KernelModule& module) {
  for (const std::string_view text :
       {backends::texts::kUpdateNumbers, backends::texts::kUpdateFunctors, backends::texts::kUpdate})
    module.add_shared(std::string(text));
}

}  // namespace isochron::ops
