// Matrix products of a library: what is refused, and what the real library accepts without a device.
#include "isochron/backends/cuda/libraries/products.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"
#include "support/leaks_of_others.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {
namespace {

const ProductSpec kSpec{
    .m = 3, .n = 4, .k = 5, .a_lead = 3, .b_lead = 5, .c_lead = 3, .count = 2, .a_step = 15, .c_step = 12};

const ProductSpec kOfBytes{.m = 16,
                           .n = 48,
                           .k = 32,
                           .transpose_a = true,
                           .a_lead = 32,
                           .b_lead = 32,
                           .c_lead = 16,
                           .a_bytes = Float8::kE4M3,
                           .b_bytes = Float8::kE5M2};

template <typename Change>
ProductSpec changed(const Change& change) {
  ProductSpec spec = kSpec;
  change(spec);
  return spec;
}

TEST(Products, WhatContradictsItselfIsRefused) {
  check(kSpec);
  const auto refused = [](const auto& change, const char* text) {
    EXPECT_ERROR(check(changed(change)), ErrorCode::kInvalidArgument, text);
  };
  refused([](ProductSpec& s) { s.k = 0; }, "an extent below 1");
  refused([](ProductSpec& s) { s.a_lead = 2; }, "columns overlap");
  refused([](ProductSpec& s) { s.transpose_a = true; }, "columns overlap");
  refused([](ProductSpec& s) { s.c_step = 11; }, "results overlap");
  refused([](ProductSpec& s) { s.factors = DType::kF16, s.result = DType::kBF16; }, "another dtype");
  refused([](ProductSpec& s) { s.factors = DType::kF32, s.result = DType::kF64; }, "another dtype");
  refused([](ProductSpec& s) { s.factors = s.result = DType::kI32; }, "no floating dtype");
  refused([](ProductSpec& s) { s.factors = s.result = DType::kF64, s.relu = true; },
          "in f64 with a bias or a relu");
  refused([](ProductSpec& s) { s.factors = s.result = DType::kF64, s.add_bias = true; }, "in f64");
}

TEST(Products, OfBytesAreAsTheUnitsTakeThem) {
  check(kOfBytes);
  const auto refused = [](const auto& change, const char* text) {
    ProductSpec spec = kOfBytes;
    change(spec);
    EXPECT_ERROR(check(spec), ErrorCode::kInvalidArgument, text);
  };
  refused([](ProductSpec& s) { s.b_bytes = Float8::kNone; }, "one factor in bytes");
  refused([](ProductSpec& s) { s.a_bytes = Float8::kNone; }, "one factor in bytes");
  refused([](ProductSpec& s) { s.a_bytes = Float8::kE5M2; }, "both factors in E5M2");
  refused([](ProductSpec& s) { s.transpose_b = true, s.b_lead = 48; }, "along the summed axis");
  refused([](ProductSpec& s) { s.m = 24, s.c_lead = 24; }, "no multiple of 16");
  refused([](ProductSpec& s) { s.result = DType::kF16; }, "not in f32 or bf16");
  refused([](ProductSpec& s) { s.add_matrix = true; }, "something added to it");
}

/// Even without a device, the library receives the full description of a product and checks each setting.
TEST(Products, TheMachinesLibraryTakesItsDescription) {
  const LeaksOfOthers leaks;
  ProductLibrary* library = machine_products();
  if (library == nullptr) GTEST_SKIP() << "cuBLASLt is not here";
  EXPECT_GE(library->version(), 130000);
  SimulatedContext context;
  std::vector<ProductSpec> specs;
  for (const DType factors : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    specs.push_back(changed([&](ProductSpec& s) {
      s.factors = s.result = factors;
      s.tf32 = factors == DType::kF32;
    }));
  }
  for (const DType factors : {DType::kF32, DType::kBF16}) {
    specs.push_back(changed([&](ProductSpec& s) {
      s.factors = s.result = factors;
      s.add_matrix = s.add_bias = s.relu = true;
    }));
  }
  specs.push_back(kOfBytes);
  specs.back().result = DType::kBF16;
  for (const ProductSpec& spec : specs) {
    try {
      EXPECT_FALSE(library->algorithms(context, spec).empty());
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cublasLtCreate"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace isochron::cuda
