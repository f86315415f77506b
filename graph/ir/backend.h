// A backend runs ops. A row (graph/ir/op.h) says what an op means; a backend has a table of factories for the
// kernels that compute the op (graph/ir/kernel.h). backends/backends.cc lists the backends of this build.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "isochron/core/tensor/device.h"
#include "isochron/graph/ir/kernel.h"

namespace isochron::graph {

class Backend {
 public:
  virtual ~Backend() = default;
  /// For messages: "the CPU".
  virtual std::string_view name() const = 0;
  /// Whether the backend has a kernel for `op`. Views need none.
  virtual bool runs(const OpDef& op) const = 0;
  /// Whether the backend has a kernel for calls of `op` with some tensors stored in 16 bits
  /// (graph/ir/half_storage.h). Other ops run through copies in f32.
  virtual bool runs_half_storage(const OpDef& op) const = 0;
  /// The kernel for a call of an op that the backend runs. Null if the backend has no kernel for this
  /// combination of tensors stored in 16 bits. Throws like the op's rule, and what libraries throw.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const = 0;
};

/// Makes the kernel of one call, like Backend::make_kernel.
using KernelFactory = std::unique_ptr<Kernel> (*)(const KernelRequest&);

/// Which dtypes a factory is asked about.
enum class StorageDtypes : uint8_t {
  kAsDefined,  // the dtypes that the row is defined on
  kAny,        // also calls whose tensors are partly stored in 16 bits
};

/// A backend that is a table: op -> factory.
class KernelTable final : public Backend {
 public:
  struct Entry {
    std::string_view op;
    KernelFactory make = nullptr;
    StorageDtypes dtypes = StorageDtypes::kAsDefined;
  };
  /// `elementwise` and `reduction` make the kernels of all ops of these fusion classes that have no entry of
  /// their own. Throws kInvalidArgument for two entries of one op.
  KernelTable(std::string name, KernelFactory elementwise, KernelFactory reduction,
              std::initializer_list<Entry> entries);

  /// Throws kInvalidArgument if the op has an entry.
  void add(const Entry& entry);
  std::string_view name() const override { return name_; }
  bool runs(const OpDef& op) const override { return find(op) != nullptr; }
  bool runs_half_storage(const OpDef& op) const override;
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override;
  /// Names of the ops with an entry of their own, in alphabetical order.
  std::vector<std::string> ops() const;

 private:
  struct Factory {
    KernelFactory make;
    StorageDtypes dtypes;
  };
  const Factory* find(const OpDef& op) const;

  std::string name_;
  Factory elementwise_;
  Factory reduction_;
  std::unordered_map<std::string, Factory> factories_;
};

/// The backend for a kind of device. Throws like limit_vector_target (backends/common/vector_target.h).
const Backend& backend_of(DeviceKind device);
/// The chosen backend, or the device's if none is chosen.
inline const Backend& backend_of(const Backend* chosen, DeviceKind device) {
  return chosen != nullptr ? *chosen : backend_of(device);
}
/// The backend that makes the requested kernel: the one that the request names, otherwise its device's.
const Backend& backend_of(const KernelRequest& request);
/// Gives a user's op a kernel on a kind of device. Not thread-safe. Throws kInvalidArgument if it has one.
void add_kernel(DeviceKind device, const KernelTable::Entry& entry);

}  // namespace isochron::graph
