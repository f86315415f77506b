#include "isochron/backends/cpu/kernels.h"

#include "isochron/backends/common/fused_product.h"
#include "isochron/backends/common/vector_target.h"
#include "isochron/backends/cpu/attention/attention.h"
#include "isochron/backends/cpu/collective/collectives.h"
#include "isochron/backends/cpu/control/control.h"
#include "isochron/backends/cpu/control/debug.h"
#include "isochron/backends/cpu/convolution/convolution.h"
#include "isochron/backends/cpu/convolution/pooling.h"
#include "isochron/backends/cpu/elementwise/float8.h"
#include "isochron/backends/cpu/elementwise/fused.h"
#include "isochron/backends/cpu/indexing/embedding_bag.h"
#include "isochron/backends/cpu/indexing/indexed.h"
#include "isochron/backends/cpu/indexing/row_updates.h"
#include "isochron/backends/cpu/linalg/linalg.h"
#include "isochron/backends/cpu/matmul/matmul.h"
#include "isochron/backends/cpu/normalization/group_norm.h"
#include "isochron/backends/cpu/normalization/normalization.h"
#include "isochron/backends/cpu/optimizer/norm_updates.h"
#include "isochron/backends/cpu/optimizer/optimizer_updates.h"
#include "isochron/backends/cpu/optimizer/tree_accumulate.h"
#include "isochron/backends/cpu/random/random.h"
#include "isochron/backends/cpu/recurrent/recurrent.h"
#include "isochron/backends/cpu/reduction/cumulative.h"
#include "isochron/backends/cpu/reduction/log_sum_exp.h"
#include "isochron/backends/cpu/reduction/softmax.h"
#include "isochron/backends/cpu/reduction/sorting.h"
#include "isochron/backends/cpu/shape/interpolation.h"
#include "isochron/backends/cpu/shape/placement.h"
#include "isochron/backends/cpu/shape/strided_copy.h"
#include "isochron/backends/cpu/shape/tensor_lists.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

using graph::DefinedCall;
using graph::has_half_storage;
using graph::Kernel;
using graph::KernelRequest;
using enum graph::StorageDtypes;

template <ConvolutionPass kPass>
std::unique_ptr<Kernel> convolution(const KernelRequest& request) {
  const ConvolutionShape shape = convolution_shape(kPass, DefinedCall(request).call);
  return has_half_storage(request) ? prepare_half_convolution(kPass, shape, request)
                                   : prepare_convolution(kPass, shape, request);
}

template <Pooling kPooling>
std::unique_ptr<Kernel> pooling(const KernelRequest& request) {
  return prepare_pooling(kPooling, pooling_shape(kPooling, DefinedCall(request).call), request);
}

template <Distribution kDistribution>
std::unique_ptr<Kernel> draw(const KernelRequest& request) {
  return prepare_random(kDistribution, request);
}

std::unique_ptr<Kernel> attention(const KernelRequest& request) {
  const AttentionShape shape = attention_shape(DefinedCall(request).call);
  return has_half_storage(request) ? prepare_half_attention(shape, request)
                                   : prepare_attention(shape, request);
}
std::unique_ptr<Kernel> attention_gradient(const KernelRequest& request) {
  const AttentionShape shape = attention_gradient_shape(DefinedCall(request).call);
  return has_half_storage(request) ? prepare_half_attention_gradient(shape, request)
                                   : prepare_attention_gradient(shape, request);
}

}  // namespace

graph::KernelTable& cpu_kernels() {
  static graph::KernelTable& table = *[] {
    limit_vector_target();
    auto* all = new graph::KernelTable(  // never freed
        "the CPU", prepare_elementwise, prepare_reduction,
        {
            {"fused", prepare_fused},

            {"matmul", prepare_matmul, kAny},
            {"fused_product", prepare_product_then_program},
            {"matmul_float8", prepare_matmul_float8, kAny},
            {"float8_history", prepare_float8_history, kAny},

            {"transpose", prepare_transpose},
            {"slice", prepare_slice},
            {"pad", prepare_pad},
            {"concatenate", prepare_concatenate},

            {"gather", prepare_gather},
            {"scatter_add", prepare_scatter_add},
            {"scatter", prepare_scatter},
            {"scatter_max", prepare_scatter_max},
            {"scatter_min", prepare_scatter_min},
            {"take_along_axis", prepare_take_along_axis},
            {"put_add_along_axis", prepare_put_add_along_axis},
            {"one_hot", prepare_one_hot},
            {"argmax", prepare_argmax},
            {"argmin", prepare_argmin},
            {"top_k", prepare_top_k},
            {"searchsorted", prepare_searchsorted},
            {"embedding_bag", prepare_embedding_bag},

            {"cumulative_sum", prepare_cumulative_sum},
            {"cumulative_product", prepare_cumulative_product},
            {"cumulative_max", prepare_cumulative_max},
            {"cumulative_min", prepare_cumulative_min},
            {"log_cumulative_sum_exp", prepare_log_cumulative_sum_exp},
            {"linear_recurrence", prepare_linear_recurrence},

            {"interpolate", prepare_interpolate},
            {"interpolate_transpose", prepare_interpolate_transpose},

            {"triangle", prepare_triangle},
            {"cholesky", prepare_cholesky},
            {"triangular_solve", prepare_triangular_solve},
            {"solve", prepare_solve},
            {"slogdet", prepare_slogdet},
            {"qr", prepare_qr},

            {"convolution", convolution<ConvolutionPass::kForward>, kAny},
            {"convolution_input_gradient", convolution<ConvolutionPass::kInputGradient>, kAny},
            {"convolution_weight_gradient", convolution<ConvolutionPass::kWeightGradient>, kAny},

            {"max_pool", pooling<Pooling::kMax>, kAny},
            {"max_pool_gradient", pooling<Pooling::kMaxGradient>, kAny},
            {"max_pool_select", pooling<Pooling::kMaxSelect>, kAny},
            {"average_pool", pooling<Pooling::kAverage>, kAny},
            {"average_pool_gradient", pooling<Pooling::kAverageGradient>, kAny},

            {"softmax", prepare_softmax},
            {"log_softmax", prepare_log_softmax},
            {"log_sum_exp", prepare_log_sum_exp},
            {"sparse_softmax_cross_entropy", prepare_cross_entropy},
            {"sparse_softmax_cross_entropy_gradient", prepare_cross_entropy_gradient},

            {"layer_norm", prepare_layer_norm, kAny},
            {"layer_norm_gradient", prepare_layer_norm_gradient, kAny},
            {"channel_moments", prepare_channel_moments, kAny},
            {"group_norm", prepare_group_norm, kAny},
            {"group_norm_gradient", prepare_group_norm_gradient, kAny},

            {"attention", attention, kAny},
            {"attention_gradient", attention_gradient, kAny},

            {"lstm", prepare_recurrent, kAny},
            {"lstm_gradient", prepare_recurrent_gradient, kAny},
            {"gru", prepare_recurrent, kAny},
            {"gru_gradient", prepare_recurrent_gradient, kAny},

            {"random_uniform", draw<Distribution::kUniform>},
            {"random_normal", draw<Distribution::kNormal>},
            {"bernoulli", draw<Distribution::kBernoulli>},

            {"cond", prepare_cond},
            {"while_loop", prepare_while_loop},
            {"scan", prepare_scan},
            {"stack_row", prepare_stack_row},
            {"update_if", prepare_update_if},

            {"lamb_update", prepare_lamb_update},
            {"adafactor_update", prepare_adafactor_update},
            {"coalesce_rows", prepare_coalesce_rows},
            {"update_rows", prepare_update_rows},
            {"square_sum", prepare_square_sum},
            {"blend", prepare_blend},

            {"print", prepare_print},
            {"check_numerics", prepare_check_numerics},

            {"all_reduce", prepare_all_reduce},
            {"all_reduce_start", prepare_all_reduce_start},
            {"all_reduce_wait", prepare_all_reduce_wait},
            {"all_gather", prepare_all_gather},
            {"reduce_scatter", prepare_reduce_scatter},
            {"broadcast", prepare_broadcast},
            {"tree_accumulate", prepare_tree_accumulate},
        });
    for (const auto& [op, rule] : optimizer_rules()) {
      if (rule.definition != nullptr) all->add({op, prepare_optimizer_update});
    }
    return all;
  }();
  return table;
}

}  // namespace isochron::ops
