#include "nn/dropout.h"

#include "core/base/internal/classic_text.h"

namespace tapegrad::nn {

Dropout::Dropout(DropoutOptions options)
    : Dropout(options.p, options.inplace, options.by_name.where) {}
Dropout::Dropout(double p, bool, Where where) : p_(p) {
  require_share(kName, "p", p, where);
  note_mode();
}

std::string Dropout::options() const {
  ClassicText text;
  text << "p=" << p_;
  return text.str();
}
Variable Dropout::forward(Variable x, Where where) const {
  return dropout(std::move(x), p_, is_training(), default_generator(), where);
}
template class Model<Dropout, Module, false>;

}  // namespace tapegrad::nn
