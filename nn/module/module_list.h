// ModuleList: modules that a model calls itself, in any order and with any inputs, as in PyTorch.
//
//   class Net : public nn::Module {
//    public:
//     explicit Net(int64_t depth) { for (int64_t i = 0; i < depth; ++i) blocks_.append(Block(64)); }
//     Tensor forward(const Tensor& x, const Tensor& mask) override {
//       Tensor y = x;
//       for (Module& block : blocks_) y = block(y, mask);
//       return y;
//     }
//     // Paths: "blocks/0/...", "blocks/1/..."
//     void members(nn::Members& list) override { list("blocks", blocks_); }
//
//    private:
//     nn::ModuleList blocks_;
//   };
#pragma once

#include <concepts>
#include <iterator>
#include <memory>
#include <vector>

#include "isochron/nn/module/module.h"

namespace isochron::nn {

/// Owns its modules: pass temporaries, or std::move them in. They are named "0", "1" and so on. Has no
/// `forward`.
class ModuleList : public Module {
 public:
  ModuleList() = default;
  template <typename... Modules>
  requires(sizeof...(Modules) > 0 && (std::derived_from<Modules, Module> && ...) &&
           !(sizeof...(Modules) == 1 &&
             (std::same_as<Modules, ModuleList> && ...))) explicit ModuleList(Modules&&... modules) {
    (append(std::move(modules)), ...);
  }

  /// Appends a module and returns a reference to it, which remains valid.
  template <std::derived_from<Module> M>
  M& append(M&& module) {
    auto owned = std::make_unique<M>(std::move(module));
    M& result = *owned;
    append(std::unique_ptr<Module>(std::move(owned)));
    return result;
  }
  /// Throws kInvalidArgument for null.
  Module& append(std::unique_ptr<Module> module);

  size_t size() const { return modules_.size(); }
  bool empty() const { return modules_.empty(); }
  /// Throws kOutOfRange.
  Module& operator[](size_t index);

  /// Iterates over Module&.
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Module;
    Iterator() = default;
    explicit Iterator(std::vector<std::unique_ptr<Module>>::const_iterator at) : at_(at) {}
    Module& operator*() const { return **at_; }
    Module* operator->() const { return at_->get(); }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    std::vector<std::unique_ptr<Module>>::const_iterator at_;
  };
  Iterator begin() { return Iterator(modules_.begin()); }
  Iterator end() { return Iterator(modules_.end()); }

  void members(Members& list) override;
  std::string_view kind() const override { return "module_list"; }

 private:
  std::vector<std::unique_ptr<Module>> modules_;
};

}  // namespace isochron::nn
