// Attention of a library: which plans the real library makes for a device that isn't present.
#include "isochron/backends/cuda/libraries/attention.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/leaks_of_others.h"
#include "support/sanitizers.h"
#include "support/simulated/described_device.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {
namespace {

using Pass = AttentionSpec::Pass;

/// Of one packed tensor, as a dense layer makes it.
AttentionSpec spec_of(Pass pass, int64_t positions, int64_t heads, int64_t key_heads, int64_t width) {
  const int64_t step = (heads + 2 * key_heads) * width;
  return {.pass = pass,
          .batch = 12,
          .queries = positions,
          .keys = positions,
          .heads = heads,
          .key_heads = key_heads,
          .width = width,
          .query_step = step,
          .key_step = step,
          .causal = true,
          .scale = 0.125};
}

class AttentionPlans : public testing::Test {
 protected:
  void SetUp() override {
    if (library == nullptr) GTEST_SKIP() << "cuDNN is not here";
    // Planning compiles these kernels and needs a library with the driver's name. The toolkit has a stub of
    // it whose calls all fail. The stub is enough, because the kernels compiled here are never loaded.
    if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr &&
        dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW) == nullptr)
      GTEST_SKIP() << "there is neither a driver nor the toolkit's stub of one: " << dlerror();
  }
  size_t algorithms(const AttentionSpec& spec) { return library->algorithms(context, spec).size(); }

  const LeaksOfOthers leaks;
  const std::unique_ptr<AttentionLibrary> library = attention_for(kH100);
  SimulatedContext context;
};

TEST_F(AttentionPlans, HasPlansForAnH100InEachPass) {
  for (const Pass pass : {Pass::kForward, Pass::kGradient}) {
    const AttentionSpec usual = spec_of(pass, 64, 4, 4, 32);
    EXPECT_GT(algorithms(usual), 0u);
    if (kSanitizer) continue;  // the library's own search takes most of a minute
    AttentionSpec f16 = usual;
    f16.dtype = DType::kF16;
    EXPECT_GT(algorithms(f16), 0u);
    EXPECT_GT(algorithms(spec_of(pass, 100, 8, 2, 128)), 0u) << "any length, shared heads";
    AttentionSpec all = usual;
    all.keys = 80;
    all.causal = false;
    EXPECT_GT(algorithms(all), 0u) << "every query sees all keys, of which there are more";
  }
}

TEST_F(AttentionPlans, LikeOnesArePlannedOnce) {
  const AttentionSpec spec = spec_of(Pass::kForward, 64, 4, 4, 32);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& algorithm : library->algorithms(context, spec)) all.push_back(algorithm->name());
    return all;
  };
  const std::vector<std::string> first = names();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(names(), first);
  const LibraryAlgorithms algorithms = library->algorithms(context, spec);
  ASSERT_FALSE(algorithms.empty());
  const DevicePtr tensors[] = {16, 32, 48, 64, 80};
  EXPECT_ERROR(algorithms[0]->enqueue(tensors, 256, Stream::kNone), ErrorCode::kUnsupported,
               "not for one that is here");
}

TEST_F(AttentionPlans, RefusesWhatItDoesntMean) {
  AttentionSpec spec = spec_of(Pass::kForward, 64, 4, 3, 32);
  EXPECT_ERROR(library->algorithms(context, spec), ErrorCode::kInvalidArgument, "4 heads, 3 of keys");
  spec = spec_of(Pass::kForward, 64, 4, 4, 32);
  spec.keys = 65;
  EXPECT_ERROR(library->algorithms(context, spec), ErrorCode::kInvalidArgument, "64 by 65");
  spec = spec_of(Pass::kGradient, 64, 4, 4, 32);
  spec.dtype = DType::kF32;
  EXPECT_ERROR(library->algorithms(context, spec), ErrorCode::kInvalidArgument, "f32");
}

}  // namespace
}  // namespace isochron::cuda
