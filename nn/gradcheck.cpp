#include "nn/gradcheck.h"

namespace tapegrad::nn {
namespace {

struct Exchange final : MemberVisitor {
  Exchange(const std::vector<Variable>& from, const std::vector<Variable>& to)
      : from(from), to(to) {}
  void on_parameter(const std::string&, Variable& x) override {
    for (size_t i = 0; i < from.size(); ++i)
      if (x.is_same(from[i])) return void(x = to[i]);
  }
  const std::vector<Variable>&from, &to;
};

}  // namespace

namespace detail {

Substitution::Substitution(Module& module, const std::vector<Variable>& parameters)
    : module_(module), before_(module.parameters()), now_(parameters) {
  if (before_.size() != now_.size())
    fail<ArgumentError>("call_with: ", now_.size(), " variables for ", before_.size(),
                        " parameters");
  Exchange exchange(before_, now_);
  module_.visit(exchange);
}

Substitution::~Substitution() {
  Exchange exchange(now_, before_);
  module_.visit(exchange);
}

}  // namespace detail

GradcheckResult gradcheck(Module& module, const std::vector<Variable>& inputs,
                          GradcheckOptions options) {
  if (inputs.size() != 1)
    fail<ArgumentError>("gradcheck: a module of one input, not ", inputs.size(),
                        "; use gradcheck with a function and call_with");
  std::vector<Variable> all = inputs;
  for (const Variable& parameter : module.parameters()) all.push_back(parameter);
  return gradcheck_outputs(
      [&](const std::vector<Variable>& in) -> std::vector<Variable> {
        const detail::Substitution substitution(module, {in.begin() + 1, in.end()});
        return {module.call(in[0], Where::current())};
      },
      all, options);
}

}  // namespace tapegrad::nn
