// Factories of kernels for a device (graph/ir/backend.h). A factory adds text to the request's module, and
// its kernel launches the module's functions once the module is loaded. All results are bitwise reproducible.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/attention/attention_shape.h"
#include "isochron/ops/convolution/convolution_shape.h"
#include "isochron/ops/convolution/pooling_shape.h"
#include "isochron/ops/matmul/fused_product.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_elementwise_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_reduction_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_fused_cuda(const graph::KernelRequest& request);
// If an index is out of range, the CPU throws kOutOfRange. Device code can't throw: there the kernel prints a
// line to standard output, and the device is lost (kDeviceLost).
std::unique_ptr<graph::Kernel> prepare_square_sum_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_blend_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_stack_row_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_softmax_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_log_softmax_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_log_sum_exp_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cross_entropy_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cross_entropy_gradient_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_layer_norm_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_layer_norm_gradient_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_channel_moments_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_transpose_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_slice_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_pad_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_concatenate_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_gather_cuda(const graph::KernelRequest& request);
/// Nearest-neighbor interpolation works in any dtype.
std::unique_ptr<graph::Kernel> prepare_interpolate_cuda(const graph::KernelRequest& request);
/// Each element sums its contributions in a fixed order.
std::unique_ptr<graph::Kernel> prepare_interpolate_transpose_cuda(const graph::KernelRequest& request);
// If a matrix has no result, the CPU throws kInvalidArgument; a device is lost, as for an index out of range.
std::unique_ptr<graph::Kernel> prepare_cholesky_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_triangular_solve_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_solve_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_slogdet_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_qr_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_uniform_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_normal_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_bernoulli_cuda(const graph::KernelRequest& request);
/// Rows with the same index are added in order.
std::unique_ptr<graph::Kernel> prepare_scatter_add_cuda(const graph::KernelRequest& request);
/// If a slice has several updates, the last one wins.
std::unique_ptr<graph::Kernel> prepare_scatter_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scatter_max_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scatter_min_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_take_along_axis_cuda(const graph::KernelRequest& request);
/// Updates of the same element are added in order.
std::unique_ptr<graph::Kernel> prepare_put_add_along_axis_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_embedding_bag_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_triangle_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_one_hot_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_argmax_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_argmin_cuda(const graph::KernelRequest& request);
/// Stable; NaN is the largest.
std::unique_ptr<graph::Kernel> prepare_top_k_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_searchsorted_cuda(const graph::KernelRequest& request);
/// Floats are accumulated in f64.
std::unique_ptr<graph::Kernel> prepare_cumulative_sum_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cumulative_product_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_log_cumulative_sum_exp_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cumulative_max_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cumulative_min_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_linear_recurrence_cuda(const graph::KernelRequest& request);
/// Sums are in f32, or in f64 for f64 operands. Uses the machine's matrix product library if that supports
/// the call.
std::unique_ptr<graph::Kernel> prepare_matmul_cuda(const graph::KernelRequest& request);
/// `fused_product` of a `matmul`: a single call of that library if possible, otherwise tiled kernels or two
/// kernels. relu(NaN) is NaN.
std::unique_ptr<graph::Kernel> prepare_fused_matmul_cuda(const graph::KernelRequest& request,
                                                         const FusedProduct& fused);
/// Operands in f32, bf16 or f16 and a result in f32 or bf16; null for a result in f16.
std::unique_ptr<graph::Kernel> prepare_matmul_float8_cuda(const graph::KernelRequest& request);
/// Images and kernels in one floating dtype, biases in any.
std::unique_ptr<graph::Kernel> prepare_convolution_cuda(ConvolutionPass pass, const ConvolutionShape& shape,
                                                        const graph::KernelRequest& request);
/// `fused_product` of one of the first two passes, by tiled kernels or as two kernels.
std::unique_ptr<graph::Kernel> prepare_fused_convolution_cuda(ConvolutionPass pass,
                                                              const ConvolutionShape& shape,
                                                              const graph::KernelRequest& request,
                                                              const FusedProduct& fused);
std::unique_ptr<graph::Kernel> prepare_pooling_cuda(Pooling pooling, const PoolingShape& shape,
                                                    const graph::KernelRequest& request);
/// All steps run in one launch if possible, otherwise one launch and one product per step. The tensors with a
/// time axis, and the kernels, may all be stored in the same 16-bit dtype; null for other combinations of
/// dtypes.
std::unique_ptr<graph::Kernel> prepare_recurrent_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_recurrent_gradient_cuda(const graph::KernelRequest& request);
/// Heads may have any floating dtype; the scores aren't stored.
std::unique_ptr<graph::Kernel> prepare_attention_cuda(const AttentionShape& shape,
                                                      const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_attention_gradient_cuda(const AttentionShape& shape,
                                                               const graph::KernelRequest& request);
/// For all optimizers with an elementwise rule (ops/optimizer/update_rule.h).
std::unique_ptr<graph::Kernel> prepare_update_cuda(const graph::KernelRequest& request);
/// Lines are printed to standard output when the host next waits for the device.
std::unique_ptr<graph::Kernel> prepare_print_cuda(const graph::KernelRequest& request);
/// If a value isn't finite, the device is lost as for an index out of range.
std::unique_ptr<graph::Kernel> prepare_check_numerics_cuda(const graph::KernelRequest& request);
/// The elementwise optimizer rules, applied to listed rows of tables.
std::unique_ptr<graph::Kernel> prepare_update_rows_cuda(const graph::KernelRequest& request);
/// Updates of the same row are added in order.
std::unique_ptr<graph::Kernel> prepare_coalesce_rows_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_tree_accumulate_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cond_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_while_loop_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_update_if_cuda(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scan_cuda(const graph::KernelRequest& request);

}  // namespace isochron::ops
