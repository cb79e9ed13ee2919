// Initial values of parameters. Each function overwrites its argument, which may be a temporary
// handle such as net[0].weight(), and returns it. The writes are not recorded.
//
// Fans are defined as in PyTorch: for a weight [out, in, k...], fan_in is in * k... and fan_out is
// out * k....
#pragma once

#include "core/base/choice.h"
#include "core/base/generator.h"
#include "nn/module.h"

namespace tapegrad::nn::init {

enum class FanMode { kFanIn, kFanOut };

// Options are given by name: trunc_normal_(fc.weight, {.std = 0.02}).
struct UniformOptions {
  ByName by_name = {};
  double a = 0.0, b = 1.0;  // the bounds
};
struct NormalOptions {
  ByName by_name = {};
  double mean = 0.0, std = 1.0;
};
struct GainOptions {
  ByName by_name = {};
  double gain = 1.0;
};
struct TruncNormalOptions {
  ByName by_name = {};
  double mean = 0.0, std = 1.0;
  double a = -2.0, b = 2.0;  // the bounds
};

Variable zeros_(const Variable& x, Where where = Where::current());
Variable ones_(const Variable& x, Where where = Where::current());
Variable constant_(const Variable& x, double value, Where where = Where::current());
Variable uniform_(const Variable& x, double low = 0.0, double high = 1.0,
                  RandomGenerator& generator = default_generator(), Where where = Where::current());
Variable uniform_(const Variable& x, UniformOptions options, Where where = Where::current());
Variable normal_(const Variable& x, double mean = 0.0, double std = 1.0,
                 RandomGenerator& generator = default_generator(), Where where = Where::current());
Variable normal_(const Variable& x, NormalOptions options, Where where = Where::current());

/// Glorot and Bengio 2010: uniform in +-gain sqrt(6 / (fan_in + fan_out)), or normal with std =
/// gain sqrt(2 / (fan_in + fan_out)).
Variable xavier_uniform_(const Variable& x, double gain = 1.0,
                         RandomGenerator& generator = default_generator(),
                         Where where = Where::current());
Variable xavier_normal_(const Variable& x, double gain = 1.0,
                        RandomGenerator& generator = default_generator(),
                        Where where = Where::current());
Variable xavier_uniform_(const Variable& x, GainOptions options, Where where = Where::current());
Variable xavier_normal_(const Variable& x, GainOptions options, Where where = Where::current());

constexpr auto choice_names(FanMode) {
  return std::to_array<ChoiceName<FanMode>>(
      {{"fan_in", FanMode::kFanIn}, {"fan_out", FanMode::kFanOut}});
}
struct KaimingOptions {
  double gain = 1.4142135623730951;  // for relu; see calculate_gain
  double a = 0;                      // slope of leaky_relu; replaces the gain
  Choice<FanMode> mode = FanMode::kFanIn;
  std::string_view nonlinearity = {};  // replaces the gain by calculate_gain(nonlinearity, a)
};
/// He et al. 2015: uniform in +-gain sqrt(3 / fan), or normal with std = gain / sqrt(fan).
Variable kaiming_uniform_(const Variable& x, KaimingOptions options = {},
                          RandomGenerator& generator = default_generator(),
                          Where where = Where::current());
Variable kaiming_normal_(const Variable& x, KaimingOptions options = {},
                         RandomGenerator& generator = default_generator(),
                         Where where = Where::current());
/// Returns the options of PyTorch's arguments: a is the slope of leaky_relu; mode is "fan_in" or
/// "fan_out".
KaimingOptions kaiming_options(double a, std::string_view mode, std::string_view nonlinearity,
                               Where where = Where::current());
template <typename A>
requires std::is_arithmetic_v<A> Variable
kaiming_uniform_(const Variable& x, A a, std::string_view mode = "fan_in",
                 std::string_view nonlinearity = "leaky_relu", Where where = Where::current()) {
  return kaiming_uniform_(x, kaiming_options(double(a), mode, nonlinearity, where),
                          default_generator(), where);
}
template <typename A>
requires std::is_arithmetic_v<A> Variable
kaiming_normal_(const Variable& x, A a, std::string_view mode = "fan_in",
                std::string_view nonlinearity = "leaky_relu", Where where = Where::current()) {
  return kaiming_normal_(x, kaiming_options(double(a), mode, nonlinearity, where),
                         default_generator(), where);
}
/// Returns the gain of "linear", "sigmoid", "tanh", "relu", "leaky_relu" (with slope `param`),
/// "selu", or a name that begins with "conv".
double calculate_gain(std::string_view nonlinearity, double param = 0.01,
                      Where where = Where::current());
/// Returns sqrt(2 / (1 + slope^2)).
double leaky_relu_gain(double slope);

/// Sets x to gain times a matrix with orthonormal rows or columns, whichever are fewer (Saxe et al.
/// 2013). All dimensions after the first count as one.
Variable orthogonal_(const Variable& x, double gain = 1.0,
                     RandomGenerator& generator = default_generator(),
                     Where where = Where::current());
Variable orthogonal_(const Variable& x, GainOptions options, Where where = Where::current());

/// Sets x to normal values; values outside of [a, b] are drawn again.
Variable trunc_normal_(const Variable& x, double mean = 0.0, double std = 1.0, double a = -2.0,
                       double b = 2.0, RandomGenerator& generator = default_generator(),
                       Where where = Where::current());
Variable trunc_normal_(const Variable& x, TruncNormalOptions options,
                       Where where = Where::current());
/// Makes a convolution preserve its channels: in the weight [out, in, ...], the middle element of
/// output i and input i is 1 in each of `groups` groups of outputs, and all other elements are 0.
Variable dirac_(const Variable& x, int64_t groups = 1, Where where = Where::current());
/// Sets x [n, m] to normal values, with ceil(sparsity n) zeros at random places of each column.
Variable sparse_(const Variable& x, double sparsity, double std = 0.01,
                 RandomGenerator& generator = default_generator(), Where where = Where::current());
/// Sets x to the identity matrix.
Variable eye_(const Variable& x, Where where = Where::current());

struct Fans {
  int64_t in, out;
};
/// Returns the fans. Throws ShapeError for fewer than two dimensions.
Fans fans(const Shape& weight);

// Initialisers of a whole layer, for Module::initialize and the options of Sequential:
//   nn::initialize(model, nn::init::keras);

/// PyTorch's default: weight and bias are uniform in +-1 / sqrt(fan_in).
void torch(Variable& weight, Variable& bias);
/// Keras's default: the weight by xavier_uniform_, the bias 0.
void keras(Variable& weight, Variable& bias);
/// Returns an initialiser: the weight is uniform in +-range, the bias 0.
Init uniform_range(double range);

}  // namespace tapegrad::nn::init

namespace tapegrad::nn {

/// Initialises every layer of the model that has a weight. A layer whose sizes are not yet known is
/// initialised as soon as they are.
void initialize(Module& model, const Init& init);
/// Overload for a function such as init::keras, which compiles faster.
void initialize(Module& model, void (*init)(Variable& weight, Variable& bias));

}  // namespace tapegrad::nn
