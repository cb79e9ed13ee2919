// Rows for further spellings of PyTorch: options of members, samplers in loops, files of several
// values, contexts of autograd::Function.
#include <sstream>

#include "core/autograd/function.h"
#include "core/tape/recording.h"
#include "data/sampler.h"
#include "io/numpy_file.h"
#include "io/safetensors.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/reduce.h"
#include "optim/clip.h"
#include "tests/hostile/kit.h"
#include "tests/temp_dir.h"
#include "train/classification_metrics.h"

namespace tapegrad::testing {
namespace {

/// Its second result has no gradient.
struct Halves : autograd::Function<Halves> {
  static std::vector<Variable> forward(autograd::Context& ctx, const Variable& x, bool on) {
    ctx.set_materialize_grads(on);
    ctx.saved_data["shape"] = x.shape();
    Variable half = x * 0.5;
    ctx.mark_non_differentiable(half);
    return {x * 0.5, half};
  }
  static std::vector<Variable> backward(autograd::Context& ctx, std::vector<Variable> grads) {
    ctx.saved_data["shape"].toIntVector(), ctx.saved_data["shape"].to<Shape>();
    return {grads[0] * 0.5, {}};
  }
};

void add_member_rows(Table& table) {
  table.add("amax argmax prod", [](const Variable& x, int64_t dim, bool keepdim) {
    if (!is_small(x) || dim < INT32_MIN || dim > INT32_MAX) return;
    const int along = int(dim);
    attempt([&] { x.sum(along, {.keepdim = keepdim}), x.mean({.dim = along}); },
            [&] { x.amax(along, {.keepdim = keepdim}), x.amin({.dim = along}); },
            [&] { x.any(along, {.keepdim = keepdim}), x.all({.dim = along}); },
            [&] { x.max(along, {.keepdim = keepdim})[along], x.min({.dim = along}); },
            [&] { x.argmax(along, {.keepdim = keepdim}), x.argmin({.dim = along}); },
            [&] { x.prod(along, {.keepdim = keepdim}), x.prod({.dim = along}); },
            [&] { x.std(along, {.unbiased = keepdim}), x.var(along, {.correction = along}); },
            [&] { x.norm(2, along, {.keepdim = keepdim}), x.norm({.dim = along}); },
            [&] { x.logsumexp(along, {.keepdim = keepdim}), x.logsumexp({.dim = along}); });
    std::ostringstream() << max(x, along, {.keepdim = keepdim});
  });
  table.add(
      "ReduceOptions::dims ReduceOptions::keeps AlongOptions::along AlongOptions::keeps "
      "VarOptions::dims VarOptions::keeps",
      [](const Variable& x, int axis, bool keepdims) {
        if (!is_small(x)) return;
        attempt([&] { sum(x, {.axis = axis, .keepdims = keepdims}); },
                [&] { sum(x, {.dim = 0, .axis = axis}); },
                [&] { argmax(x, {.axis = axis, .keepdims = keepdims}); },
                [&] { var(x, {.axis = axis, .keepdims = keepdims}); });
      });
  table.add("EnableGrad::EnableGrad EnableGrad::Recording enable_grad",
            [](const Variable& x, bool on) {
              const SetGradEnabled guard(on);
              enable_grad([&] { return x * x; });
              const EnableGrad enabled;
            });
  table.add(
      "Context::mark_non_differentiable Context::set_materialize_grads "
      "SavedItem::toIntVector SavedItem::to",
      [](const Variable& x, bool on) {
        const Variable leaf = Variable(x.value().clone()).requires_grad_();
        sum(Halves::apply(leaf, on)[0]).backward();
      });
  table.add("SavedItem::toStringRef", [](const std::string& text, const Variable& x) {
    attempt([&] { autograd::SavedItem(text).toInt(); },
            [&] { autograd::SavedItem(text).toTensor(); },
            [&] { autograd::SavedItem(x).toDouble(); }, [&] { autograd::SavedItem().toBool(); });
    autograd::SavedItem(text).toStringRef();
    autograd::SavedItem(x).toStringRef();
  });
}

void add_data_rows(Table& table) {
  table.add("Sampler::begin Sampler::end Sampler::Iterator::Iterator", [](int64_t examples) {
    if (examples > 1000) return;
    SequentialSampler in_order(examples);
    for (int i = 0; i < 2; ++i)
      for (const int64_t index : in_order)
        if (index < 0 || index >= examples) fail<ArgumentError>("index ", index);
    Sampler::Iterator at = in_order.begin();
    if (at != in_order.end()) at++;
  });
  table.add("Saved::Saved Saved::join",
            [](const Variable& x, const TensorMap& state, const std::string& name, double number) {
              const TempDir dir;
              const std::string path = (dir / "x.safetensors").string();
              attempt(
                  [&] {
                    save(path, {{name, number}, {"whole", int64_t(number == 1)}});
                  },
                  [&] {
                    save({{"state", state}, {name, {{name, x}}}}, path);
                  });
              save(path, {{name, x}, {"x", x}, {"state", state}});
              load(path);
            });
  table.add("savez", [](const Variable& x, const std::string& name) {
    const TempDir dir;
    savez((dir / "x").string(), {{name, x}, {"y", x}});
  });
  table.add("Metric::update Metric::compute", [](const Variable& x, const Labels& y) {
    Accuracy accuracy;
    accuracy.update(x, y);
    accuracy.compute();
  });
  table.add("GradientNorm::item", [](const Variables& params, double limit) {
    const optim::GradientNorm norm = optim::clip_grad_norm_(params, limit);
    norm.item(), norm.item<float>(), Variable(norm).item();
  });
  table.add("GradientNorm::GradientNorm", [](const Variable& unread, double value) {
    optim::GradientNorm(value).item();
    optim::GradientNorm(unread).item();
  });
  table.add("Sequential::pop_back", [](bool on) {
    nn::Sequential net = on ? nn::Sequential() : nn::Sequential(nn::Linear(1, 1));
    net.pop_back();
  });
  table.add("Sequential::is_empty",
            [](bool on) { (on ? nn::Sequential() : nn::Sequential(nn::Linear(1, 1))).is_empty(); });
  table.leave_out("refused by the compiler (tests/first_guess)",
                  "RefusedProjection::RefusedProjection RefusedCollate::RefusedCollate "
                  "Variable::mutable_grad F1Score::F1Score");
}

}  // namespace

void add_spellings_rows(Table& table) {
  add_member_rows(table);
  add_data_rows(table);
}

}  // namespace tapegrad::testing
