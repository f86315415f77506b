// cuBLASLt, loaded at run time.
#ifdef ISOCHRON_CUDA

#include <cublasLt.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "isochron/backends/cuda/libraries/products.h"
#include "isochron/core/base/crc32c.h"
#include "isochron/core/base/error.h"
#include "isochron/core/cuda/shared_library.h"

namespace isochron::cuda {
namespace {

// clang-format off
#define ISOCHRON_CUBLASLT_CALLS(X) \
  X(cublasLtCreate) X(cublasLtGetVersion) X(cublasLtGetStatusString) X(cublasLtMatmul) X(cublasLtMatmulDescCreate) \
  X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) \
  X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) \
  X(cublasLtMatmulAlgoConfigGetAttribute)
// clang-format on

struct Calls {
#define X(name) decltype(&::name) name = nullptr;
  ISOCHRON_CUBLASLT_CALLS(X)
#undef X

  void check(cublasStatus_t status, const char* call) const {
    require(status == CUBLAS_STATUS_SUCCESS, ErrorCode::kDevice, "cuda", "{}: {}", call,
            cublasLtGetStatusString(status));
  }
};

#define ISOCHRON_CALL(function, ...) calls_.check(calls_.function(__VA_ARGS__), #function)

cudaDataType_t cublas_type(DType dtype, Float8 bytes = Float8::kNone) {
  if (bytes != Float8::kNone) return bytes == Float8::kE5M2 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

/// The library's descriptors of a product.
class Description {
 public:
  Description(const Calls& calls, const ProductSpec& spec) : calls_(calls) {
    try {
      const bool f64 = !spec.in_bytes() && spec.factors == DType::kF64;
      const bool tf32 = !spec.in_bytes() && spec.tf32 && spec.factors == DType::kF32;
      const cublasComputeType_t sums = f64    ? CUBLAS_COMPUTE_64F
                                       : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                              : CUBLAS_COMPUTE_32F;
      ISOCHRON_CALL(cublasLtMatmulDescCreate, &product, sums, f64 ? CUDA_R_64F : CUDA_R_32F);
      set(CUBLASLT_MATMUL_DESC_TRANSA, operation(spec.transpose_a));
      set(CUBLASLT_MATMUL_DESC_TRANSB, operation(spec.transpose_b));
      if (spec.in_bytes()) scale_by(nullptr, nullptr);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(spec));
      // The library infers the alignment of the bias from this address.
      if (spec.add_bias) add_bias(reinterpret_cast<const void*>(kLibraryAlignment));
      a = layout(cublas_type(spec.factors, spec.a_bytes), spec.transpose_a ? spec.k : spec.m,
                 spec.transpose_a ? spec.m : spec.k, spec.a_lead, spec.count, spec.a_step);
      b = layout(cublas_type(spec.factors, spec.b_bytes), spec.transpose_b ? spec.n : spec.k,
                 spec.transpose_b ? spec.k : spec.n, spec.b_lead, spec.count, spec.b_step);
      c = layout(cublas_type(spec.result), spec.m, spec.n, spec.c_lead, spec.count, spec.c_step);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Description() { destroy(); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  /// Sets the addresses of the numbers that a and b are multiplied by.
  void scale_by(const void* of_a, const void* of_b) const {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of_a);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of_b);
  }

  /// Sets the address of the bias.
  void add_bias(const void* bias) const { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;

 private:
  static cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }
  static cublasLtEpilogue_t epilogue(const ProductSpec& spec) {
    if (spec.relu) return spec.add_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return spec.add_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) const {
    ISOCHRON_CALL(cublasLtMatmulDescSetAttribute, product, attribute, &value, sizeof value);
  }
  cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t lead,
                                int64_t count, int64_t step) {
    cublasLtMatrixLayout_t made = nullptr;
    ISOCHRON_CALL(cublasLtMatrixLayoutCreate, &made, type, static_cast<uint64_t>(rows),
                  static_cast<uint64_t>(columns), lead);
    layouts_.push_back(made);
    const auto matrices = static_cast<int32_t>(count);
    ISOCHRON_CALL(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices,
                  sizeof matrices);
    ISOCHRON_CALL(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                  sizeof step);
    return made;
  }
  void destroy() {
    for (const cublasLtMatrixLayout_t each : layouts_) calls_.cublasLtMatrixLayoutDestroy(each);
    if (product != nullptr) calls_.cublasLtMatmulDescDestroy(product);
  }

  const Calls& calls_;
  std::vector<cublasLtMatrixLayout_t> layouts_;
};

class CublasLtProduct final : public LibraryAlgorithm {
 public:
  CublasLtProduct(const Calls& calls, cublasLtHandle_t handle, std::shared_ptr<const Description> description,
                  const cublasLtMatmulHeuristicResult_t& found, const ProductSpec& spec)
      : calls_(calls),
        handle_(handle),
        description_(std::move(description)),
        algorithm_(found.algo),
        workspace_bytes_(found.workspaceSize),
        spec_(spec) {
    size_t written = 0;
    ISOCHRON_CALL(cublasLtMatmulAlgoConfigGetAttribute, &algorithm_, CUBLASLT_ALGO_CONFIG_ID, &id_,
                  sizeof id_, &written);
  }

  std::string name() const override {
    // The checksum covers everything that the library identifies the algorithm by. The number is only for
    // human readers.
    return fmt::format("cublasLt {} {:08x}", id_, crc32c(std::as_bytes(std::span(algorithm_.data))));
  }
  size_t workspace_bytes() const override { return workspace_bytes_; }
  void enqueue(std::span<const DevicePtr> tensors, DevicePtr workspace, Stream stream) override {
    const auto at = [&](size_t tensor) { return reinterpret_cast<void*>(tensors[tensor]); };
    const bool f64 = !spec_.in_bytes() && spec_.factors == DType::kF64;
    const double one_f64 = 1, times_c_f64 = spec_.add_matrix ? 1 : 0;
    const float one_f32 = 1, times_c_f32 = spec_.add_matrix ? 1 : 0;
    const void* one = f64 ? static_cast<const void*>(&one_f64) : &one_f32;
    const void* times_c = f64 ? static_cast<const void*>(&times_c_f64) : &times_c_f32;
    if (spec_.in_bytes()) description_->scale_by(at(3), at(4));
    if (spec_.add_bias) description_->add_bias(at(spec_.add_matrix ? 4 : 3));
    ISOCHRON_CALL(cublasLtMatmul, handle_, description_->product, one, at(0), description_->a, at(1),
                  description_->b, times_c, at(spec_.add_matrix ? 3 : 2), description_->c, at(2),
                  description_->c, &algorithm_, reinterpret_cast<void*>(workspace), workspace_bytes_,
                  reinterpret_cast<cudaStream_t>(stream));
  }

 private:
  const Calls& calls_;
  const cublasLtHandle_t handle_;
  const std::shared_ptr<const Description> description_;
  const cublasLtMatmulAlgo_t algorithm_;
  const size_t workspace_bytes_;
  const ProductSpec spec_;
  int32_t id_ = 0;
};

class CublasLt final : public ProductLibrary {
 public:
  CublasLt()
      : library_("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so"},
                 "install the CUDA Toolkit, or put its folder of libraries in LD_LIBRARY_PATH") {
#define X(name) library_.find(calls_.name, #name);
    ISOCHRON_CUBLASLT_CALLS(X)
#undef X
    require(version() >= kOldestVersion, ErrorCode::kUnsupported, "cuda",
            "cuBLASLt {} is too old; {} or later is needed", version(), kOldestVersion);
  }

  int64_t version() override { return static_cast<int64_t>(calls_.cublasLtGetVersion()); }

  LibraryAlgorithms algorithms(Context& context, const ProductSpec& spec) override {
    cuda::check(spec);
    const auto description = std::make_shared<const Description>(calls_, spec);
    const Preference preference(calls_);
    context.make_current();
    const cublasLtHandle_t handle = handle_for(context.index());
    std::vector<cublasLtMatmulHeuristicResult_t> found(kMaxLibraryAlgorithms);
    int count = 0;
    const cublasStatus_t status = calls_.cublasLtMatmulAlgoGetHeuristic(
        handle, description->product, description->a, description->b, description->c, description->c,
        preference.made, kMaxLibraryAlgorithms, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    calls_.check(status, "cublasLtMatmulAlgoGetHeuristic");
    LibraryAlgorithms result;
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& one = found[static_cast<size_t>(i)];
      if (one.state == CUBLAS_STATUS_SUCCESS)
        result.push_back(std::make_unique<CublasLtProduct>(calls_, handle, description, one, spec));
    }
    return result;
  }

 private:
  struct Preference {
    explicit Preference(const Calls& calls) : calls_(calls) {
      ISOCHRON_CALL(cublasLtMatmulPreferenceCreate, &made);
      try {
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kMaxLibraryWorkspace));
        // Allow only algorithms that don't split sums, or that add partial sums in f32 and in a fixed order.
        set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
        for (const auto attribute :
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
          set(attribute, static_cast<uint32_t>(kLibraryAlignment));
      } catch (...) {
        calls_.cublasLtMatmulPreferenceDestroy(made);
        throw;
      }
    }
    ~Preference() { calls_.cublasLtMatmulPreferenceDestroy(made); }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;
    template <typename T>
    void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
      ISOCHRON_CALL(cublasLtMatmulPreferenceSetAttribute, made, attribute, &value, sizeof value);
    }

    const Calls& calls_;
    cublasLtMatmulPreference_t made = nullptr;
  };

  /// One handle per device, kept until the process ends because plans refer to it.
  cublasLtHandle_t handle_for(int device) {
    const std::lock_guard lock(mutex_);
    cublasLtHandle_t& handle = handles_[device];
    if (handle == nullptr) ISOCHRON_CALL(cublasLtCreate, &handle);
    return handle;
  }

  static constexpr int64_t kOldestVersion = 130000;

  const SharedLibrary library_;
  Calls calls_;
  std::mutex mutex_;
  std::map<int, cublasLtHandle_t> handles_;
};

}  // namespace

ProductLibrary* machine_products() {
  static ProductLibrary* const library = library_or_notice<CublasLt>("matrix products");
  return library;
}

}  // namespace isochron::cuda

#endif
