// Namespaces of Keras, Flux, safetensors and further libraries: names that exist here under another
// namespace, and names whose use is a compile error that tells what to type.
#pragma once

#include <string>

#include "core/autograd/checkpoint.h"
#include "io/safetensors.h"
#include "nn/refused_names.h"
#include "ops/aliases.h"
#include "optim/optimizers.h"

// g++ 12 and clang say "... is unavailable: MESSAGE".
#define TAPEGRAD_REFUSED(message) __attribute__((unavailable(message)))

namespace tapegrad {

/// Memory formats of PyTorch and libtorch. The conversions make the refused name the first error of
/// x.contiguous(format) and x.to(format).
struct MemoryFormat {
  operator Where() const;
  operator DType() const;
  TAPEGRAD_REFUSED("leave it out: the library chooses the layouts of images")
  static const MemoryFormat ChannelsLast;
  TAPEGRAD_REFUSED("type x.contiguous() or x.is_contiguous()")
  static const MemoryFormat Contiguous;
  TAPEGRAD_REFUSED("leave it out") static const MemoryFormat Preserve;
};
namespace torch {
using ::tapegrad::MemoryFormat;
TAPEGRAD_REFUSED("leave it out: the library chooses the layouts of images")
extern const MemoryFormat kChannelsLast;
}  // namespace torch

namespace keras {
using nn::Sequential;
namespace layers = nn;
namespace optimizers = optim;
namespace utils {
using ::tapegrad::to_categorical;
}
}  // namespace keras

namespace Flux {
using nn::Chain, nn::Dense;
TAPEGRAD_REFUSED("type model.parameters() instead of Flux::params(model)")
Variable params(const auto&... models);
TAPEGRAD_REFUSED("type one_hot(classes, 10) instead of Flux::onehotbatch(classes, 0:9)")
Variable onehotbatch(const auto& classes, const auto& labels);
TAPEGRAD_REFUSED("type argmax(x, 1) instead of Flux::onecold(x)")
Variable onecold(const auto& x);
TAPEGRAD_REFUSED("type cross_entropy(scores, classes): rows are examples, classes are numbers")
Variable logitcrossentropy(const auto& scores, const auto& classes);
TAPEGRAD_REFUSED("type optim::Adam adam(model, 1e-3) instead of Flux::setup(Adam(1e-3), model)")
Variable setup(const auto& rule, const auto& model);
}  // namespace Flux
using Flux::logitcrossentropy, Flux::onecold, Flux::onehotbatch;

namespace safetensors {
inline TensorMap load_file(const std::string& path, Where where = Where::current()) {
  return load(path, where);
}
inline void save_file(const TensorMap& tensors, const std::string& path) { save(path, tensors); }
inline void save_file(std::initializer_list<std::pair<std::string, Saved>> tensors,
                      const std::string& path) {
  save(path, tensors);
}
namespace torch {
using safetensors::load_file, safetensors::save_file;
}
}  // namespace safetensors

TAPEGRAD_REFUSED("type linalg::eigh(A), which returns all eigenvalues in ascending order")
Variable lobpcg(const auto& a, const auto&... options);
template <typename V>
auto geqrf(const V&, const auto&...) {
  static_assert(detail::kNever<V>,
                "type linalg::qr(x); linalg::householder_product(v, tau) multiplies reflections");
}
template <typename V>
auto svd_lowrank(const V&, const auto&...) {
  static_assert(detail::kNever<V>, "type pca_lowrank(x, q, false)");
}
TAPEGRAD_REFUSED("type fake_quantize_per_tensor_affine(x, scale, zero_point, -128, 127)")
Variable quantize_per_tensor(const auto& x, const auto&... options);
namespace torch {
TAPEGRAD_REFUSED("tensors have no quantized dtype: type fake_quantize_per_tensor_affine(...)")
extern const DType kQInt8, kQUInt8;
namespace onnx {
TAPEGRAD_REFUSED("type save(model, \"m.safetensors\"), and load the weights by name in Python")
void export_(const auto& model, const auto&... rest);
}  // namespace onnx
}  // namespace torch
namespace linalg {  // templates, so that a part of the result is not the first error
template <typename V>
auto cholesky_ex(const V&, const auto&...) {
  static_assert(detail::kNever<V>,
                "type linalg::cholesky(x), which throws LinAlgError where there is none");
}
template <typename V>
auto inv_ex(const V&, const auto&...) {
  static_assert(detail::kNever<V>,
                "type linalg::inv(x), which throws LinAlgError where there is none");
}
template <typename V>
auto ldl_factor(const V&, const auto&...) {
  static_assert(detail::kNever<V>, "type linalg::lu_factor(x), or linalg::cholesky(x)");
}
}  // namespace linalg
namespace nested {
TAPEGRAD_REFUSED("type nn::utils::rnn::pad_sequence(xs), with a mask or lengths")
Variable nested_tensor(const auto& xs, const auto&... options);
}  // namespace nested

namespace sparse {
TAPEGRAD_REFUSED("tensors are dense: type matmul(a, b), or index_select and index_add")
Variable mm(const auto& a, const auto& b);
TAPEGRAD_REFUSED("tensors are dense: type softmax(x, dim)")
Variable softmax(const auto& x, const auto&... options);
}  // namespace sparse

namespace utils::checkpoint {
using ::tapegrad::checkpoint;
}

namespace einops {
TAPEGRAD_REFUSED("type x.permute({0, 2, 3, 1}), x.reshape({...}) or x.flatten(1)")
Variable rearrange(const auto& x, const std::string& pattern, const auto&... sizes);
TAPEGRAD_REFUSED("type x.mean({2, 3}), and x.permute({...}) or x.reshape({...})")
Variable reduce(const auto& x, const std::string& pattern, const auto&... how);
TAPEGRAD_REFUSED("type x.expand({...}) or x.repeat({...})")
Variable repeat(const auto& x, const std::string& pattern, const auto&... sizes);
}  // namespace einops
using einops::rearrange;

namespace torchvision {
namespace models {
TAPEGRAD_REFUSED("write the layers (examples/resnet_cifar), and load(model, path) for weights")
Variable resnet18(const auto&... options);
TAPEGRAD_REFUSED("write the layers (examples/resnet_cifar), and load(model, path) for weights")
Variable resnet50(const auto&... options);
}  // namespace models
namespace datasets {
TAPEGRAD_REFUSED("type auto [train, test] = load_mnist(path)")
Variable MNIST(const auto&... options);
}  // namespace datasets
}  // namespace torchvision

namespace torchmetrics {
TAPEGRAD_REFUSED("type Accuracy(), with update(), compute() and reset()")
Variable Accuracy(const auto&... options);
}  // namespace torchmetrics

}  // namespace tapegrad

#undef TAPEGRAD_REFUSED
