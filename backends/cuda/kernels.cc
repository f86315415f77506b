#include "isochron/backends/cuda/kernels.h"

#include "isochron/backends/cuda/factories.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

using graph::DefinedCall;
using graph::Kernel;
using graph::KernelRequest;
using enum graph::StorageDtypes;

template <ConvolutionPass kPass>
std::unique_ptr<Kernel> convolution(const KernelRequest& request) {
  return prepare_convolution_cuda(kPass, convolution_shape(kPass, DefinedCall(request).call), request);
}

std::unique_ptr<Kernel> fused_product(const KernelRequest& request) {
  const FusedProduct fused(request);
  if (fused.product.name == "matmul") return prepare_fused_matmul_cuda(request, fused);
  const ConvolutionPass pass =
      fused.product.name == "convolution" ? ConvolutionPass::kForward : ConvolutionPass::kInputGradient;
  const KernelRequest product = fused.product_request(request);
  return prepare_fused_convolution_cuda(pass, convolution_shape(pass, DefinedCall(product).call), request,
                                        fused);
}

template <Pooling kPooling>
std::unique_ptr<Kernel> pooling(const KernelRequest& request) {
  return prepare_pooling_cuda(kPooling, pooling_shape(kPooling, DefinedCall(request).call), request);
}

std::unique_ptr<Kernel> attention(const KernelRequest& request) {
  return prepare_attention_cuda(attention_shape(DefinedCall(request).call), request);
}
std::unique_ptr<Kernel> attention_gradient(const KernelRequest& request) {
  return prepare_attention_gradient_cuda(attention_gradient_shape(DefinedCall(request).call), request);
}

}  // namespace

graph::KernelTable& cuda_kernels() {
  static graph::KernelTable& table = *[] {
    auto* all = new graph::KernelTable(  // never freed
        "CUDA", prepare_elementwise_cuda, prepare_reduction_cuda,
        {
            {"fused", prepare_fused_cuda},

            {"matmul", prepare_matmul_cuda, kAny},
            {"fused_product", fused_product},
            {"matmul_float8", prepare_matmul_float8_cuda, kAny},

            {"transpose", prepare_transpose_cuda},
            {"slice", prepare_slice_cuda},
            {"pad", prepare_pad_cuda},
            {"concatenate", prepare_concatenate_cuda},

            {"gather", prepare_gather_cuda},
            {"scatter_add", prepare_scatter_add_cuda},
            {"scatter", prepare_scatter_cuda},
            {"scatter_max", prepare_scatter_max_cuda},
            {"scatter_min", prepare_scatter_min_cuda},
            {"take_along_axis", prepare_take_along_axis_cuda},
            {"put_add_along_axis", prepare_put_add_along_axis_cuda},
            {"embedding_bag", prepare_embedding_bag_cuda},
            {"triangle", prepare_triangle_cuda},
            {"one_hot", prepare_one_hot_cuda},
            {"argmax", prepare_argmax_cuda},
            {"argmin", prepare_argmin_cuda},
            {"top_k", prepare_top_k_cuda},
            {"searchsorted", prepare_searchsorted_cuda},

            {"interpolate", prepare_interpolate_cuda},
            {"interpolate_transpose", prepare_interpolate_transpose_cuda},

            {"cholesky", prepare_cholesky_cuda},
            {"triangular_solve", prepare_triangular_solve_cuda},
            {"solve", prepare_solve_cuda},
            {"slogdet", prepare_slogdet_cuda},
            {"qr", prepare_qr_cuda},

            {"cumulative_sum", prepare_cumulative_sum_cuda},
            {"cumulative_product", prepare_cumulative_product_cuda},
            {"cumulative_max", prepare_cumulative_max_cuda},
            {"cumulative_min", prepare_cumulative_min_cuda},
            {"log_cumulative_sum_exp", prepare_log_cumulative_sum_exp_cuda},
            {"linear_recurrence", prepare_linear_recurrence_cuda},

            {"convolution", convolution<ConvolutionPass::kForward>, kAny},
            {"convolution_input_gradient", convolution<ConvolutionPass::kInputGradient>, kAny},
            {"convolution_weight_gradient", convolution<ConvolutionPass::kWeightGradient>, kAny},

            {"max_pool", pooling<Pooling::kMax>, kAny},
            {"max_pool_gradient", pooling<Pooling::kMaxGradient>, kAny},
            {"max_pool_select", pooling<Pooling::kMaxSelect>, kAny},
            {"average_pool", pooling<Pooling::kAverage>, kAny},
            {"average_pool_gradient", pooling<Pooling::kAverageGradient>, kAny},

            {"softmax", prepare_softmax_cuda},
            {"log_softmax", prepare_log_softmax_cuda},
            {"log_sum_exp", prepare_log_sum_exp_cuda},
            {"sparse_softmax_cross_entropy", prepare_cross_entropy_cuda},
            {"sparse_softmax_cross_entropy_gradient", prepare_cross_entropy_gradient_cuda},

            {"layer_norm", prepare_layer_norm_cuda, kAny},
            {"layer_norm_gradient", prepare_layer_norm_gradient_cuda, kAny},
            {"channel_moments", prepare_channel_moments_cuda, kAny},

            {"attention", attention, kAny},
            {"attention_gradient", attention_gradient, kAny},

            {"lstm", prepare_recurrent_cuda, kAny},
            {"lstm_gradient", prepare_recurrent_gradient_cuda, kAny},
            {"gru", prepare_recurrent_cuda, kAny},
            {"gru_gradient", prepare_recurrent_gradient_cuda, kAny},

            {"random_uniform", prepare_uniform_cuda},
            {"random_normal", prepare_normal_cuda},
            {"bernoulli", prepare_bernoulli_cuda},

            {"cond", prepare_cond_cuda},
            {"while_loop", prepare_while_loop_cuda},
            {"scan", prepare_scan_cuda},
            {"stack_row", prepare_stack_row_cuda},
            {"update_if", prepare_update_if_cuda},

            {"coalesce_rows", prepare_coalesce_rows_cuda},
            {"update_rows", prepare_update_rows_cuda},

            {"square_sum", prepare_square_sum_cuda},
            {"blend", prepare_blend_cuda},

            {"print", prepare_print_cuda},
            {"check_numerics", prepare_check_numerics_cuda},

            {"tree_accumulate", prepare_tree_accumulate_cuda},
        });
    for (const auto& [op, rule] : optimizer_rules()) {
      if (rule.definition != nullptr) all->add({op, prepare_update_cuda});
    }
    return all;
  }();
  return table;
}

}  // namespace isochron::ops
