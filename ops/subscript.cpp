#include "ops/subscript.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/internal/host_values.h"
#include "core/tape/internal/call_line.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/index_checks.h"
#include "ops/internal/operands.h"
#include "ops/scatter.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

/// A view and the index tensors that remain to be applied: one per dimension of the view, or empty.
struct Located {
  Variable view;
  std::vector<Variable> indices;

  bool is_view() const {
    return std::none_of(indices.begin(), indices.end(),
                        [](const Variable& i) { return i.defined(); });
  }
};

using Kind = Subscript::Kind;

/// Returns the number of dimensions of x that a subscript indexes.
int width_of(const Subscript& subscript) {
  if (subscript.kind() == Kind::kEllipsis || subscript.kind() == Kind::kNewAxis) return 0;
  if (subscript.kind() != Kind::kTensor || subscript.tensor().dtype() != boolean) return 1;
  return subscript.tensor().rank();
}

/// Returns whether the subscript selects one place of a dimension, which gives a view: an integer,
/// or an index tensor without dimensions.
bool is_place(const Subscript& subscript) {
  if (subscript.kind() != Kind::kTensor) return subscript.kind() == Kind::kIndex;
  const Variable& tensor = subscript.tensor();
  return tensor.rank() == 0 && is_integer(tensor.dtype());
}

int64_t place_of(const Subscript& subscript) {
  return subscript.kind() == Kind::kIndex
             ? subscript.index()
             : detail::host_number(subscript.tensor().value()).to<int64_t>();
}

Located locate(std::string_view op, const Variable& x, const Subscripts& subscripts, Where where) {
  int width = 0, ellipses = 0;
  for (const Subscript& subscript : subscripts) {
    width += width_of(subscript);
    ellipses += subscript.kind() == Kind::kEllipsis;
  }
  if (width > x.rank())
    fail<IndexError>(op, ": subscripts of ", width, " dimensions for a shape of ", x.shape());
  if (ellipses > 1) fail<IndexError>(op, ": more than one ellipsis");
  Located located{x, {}};
  Variable& view = located.view;
  const auto dim = [&] { return int(located.indices.size()); };
  for (const Subscript& subscript : subscripts) {
    if (is_place(subscript)) {
      view = select(view, dim(), place_of(subscript), where);
    } else if (subscript.kind() == Kind::kSlice) {
      const Slice& slice = subscript.slice();
      view = tapegrad::slice(view, dim(), slice.start.value_or(0), slice.stop.value_or(kEnd),
                             slice.step, where);
      located.indices.emplace_back();
    } else if (subscript.kind() == Kind::kEllipsis) {
      located.indices.resize(located.indices.size() + size_t(x.rank() - width));
    } else if (subscript.kind() == Kind::kNewAxis) {
      view = unsqueeze(view, dim(), where);
      located.indices.emplace_back();
    } else {
      const Variable& tensor = subscript.tensor();
      if (tensor.dtype() != boolean) {
        located.indices.push_back(wrapped(op, tensor, view.size(dim())));
        continue;
      }
      for (int i = 0; i < tensor.rank(); ++i)
        if (tensor.shape()[i] != view.size(dim() + i))
          fail<IndexError>(op, ": a mask of ", tensor.shape(), " at dim ", dim(), " of ",
                           view.shape());
      if (tensor.rank() == 0) fail<IndexError>(op, ": a mask without dimensions");
      for (Variable& index : tapegrad::where(tensor, where))
        located.indices.push_back(std::move(index));
    }
  }
  located.indices.resize(size_t(view.rank()));
  return located;
}

/// Gathers the elements at the index tensors. The indexed dimensions are merged into one, in which
/// every element has a number.
Variable pick(std::string_view op, const Located& located, Where where) {
  const Variable& x = located.view;
  Dims order, rest;
  Shape shape, picked;
  std::optional<int> place;  // of the broadcast shape among the other dimensions
  for (int i = 0; i < x.rank(); ++i) {
    const Variable& index = located.indices[size_t(i)];
    (index.defined() ? order : rest).push_back(i);
    if (!index.defined()) continue;
    shape = broadcast(op, shape, index.shape());
    if (index.rank() == 0) continue;  // selects, as an integer does
    place = !place || *place == rest.rank() ? rest.rank() : 0;
  }

  Variable number;
  int64_t count = 1;
  for (int64_t i : order) {
    const int64_t size = x.shape()[int(i)];
    const Variable& index = located.indices[size_t(i)];
    number = number.defined() ? number * size + index : index;
    count *= size;
  }
  Shape flat{count};
  for (int64_t i : rest) {
    order.push_back(i);
    flat.push_back(x.shape()[int(i)]);
  }
  const Variable rows = reshape(permute(x, order, where), flat, where);
  const Variable which = reshape(expand(number, shape), {numel(shape)});
  const Variable y = index_select(rows, 0, which, where);
  picked = shape;
  for (int64_t i : rest) picked.push_back(x.shape()[int(i)]);
  // Moves the indexed dimensions from the front to their place.
  Dims back;
  const int before = place.value_or(0);
  for (int i = 0; i < before; ++i) back.push_back(shape.rank() + i);
  for (int i = 0; i < shape.rank(); ++i) back.push_back(i);
  for (int i = before; i < rest.rank(); ++i) back.push_back(shape.rank() + i);
  return permute(reshape(y, picked, where), back, where);
}

/// Converts values to x's dtype; a whole number for a bool, mask[0] = 1, as fill_() does. Throws
/// DTypeError rather than truncate fractions.
Variable values_for(std::string_view op, const Variable& x, const Operand& values) {
  if (!values.variable && x.dtype() == boolean && is_integer(values.number.kind()))
    return as_variable(op, {values.number.to<bool>(), values.where}, boolean, x.device());
  if (common_dtype(op, x, values) != x.dtype())
    fail<DTypeError>(op, ": values of another kind do not fit into ", x.dtype());
  return as_variable(op, values, x.dtype(), x.device());
}

bool is_whole(const Subscript& subscript) {
  return subscript.kind() == Kind::kSlice && !subscript.slice().start && !subscript.slice().stop &&
         subscript.slice().step == 1;
}

/// Returns the dimension of the only index tensor, if the subscripts take all other dimensions
/// whole.
std::optional<int> only_index(const Variable& x, const Subscripts& subscripts) {
  std::optional<int> dim;
  for (size_t i = 0; i < subscripts.size(); ++i) {
    const Subscript& subscript = subscripts[i];
    const bool rest = subscript.kind() == Kind::kEllipsis && i + 1 == subscripts.size();
    if (is_whole(subscript) || rest) continue;
    if (dim || subscript.kind() != Kind::kTensor || subscript.tensor().dtype() == boolean)
      return {};
    dim = int(i);
  }
  return dim && int(subscripts.size()) <= x.rank() ? dim : std::nullopt;
}

/// A mask of all elements of a tensor, and the values of the chosen elements, both broadcast.
struct Masked {
  Variable mask, values;
};

/// Returns nothing unless the subscripts are one mask, all other dimensions are taken whole, and
/// the values do not depend on the number of chosen elements.
std::optional<Masked> as_masked(const Variable& x, const Subscripts& subscripts,
                                const Variable& source) {
  Variable mask;
  int width = 0, begin = 0, rest = x.rank();  // dimensions so far, before the mask, of an ellipsis
  int ellipses = 0;
  for (const Subscript& subscript : subscripts) rest -= width_of(subscript);
  for (const Subscript& subscript : subscripts) {
    if (subscript.kind() == Kind::kTensor && !mask.defined() &&
        subscript.tensor().dtype() == boolean) {
      mask = subscript.tensor();
      begin = width;
    } else if (subscript.kind() == Kind::kEllipsis) {
      if (++ellipses > 1) return {};
      width += rest;
    } else if (!is_whole(subscript)) {
      return {};
    }
    width += width_of(subscript);
  }
  if (!mask.defined() || mask.rank() == 0 || rest < 0 || width > x.rank()) return {};
  const int after = x.rank() - begin - mask.rank();  // dimensions behind the mask
  Shape places = mask.shape(), shape;
  for (int i = 0; i < after; ++i) places.push_back(1);
  for (int i = 0; i < source.rank(); ++i) {
    const bool is_count = source.rank() - i == after + 1;
    if (is_count && source.shape()[i] != 1) return {};
    for (int k = 0; k < (is_count ? mask.rank() : 1); ++k) shape.push_back(source.shape()[i]);
  }
  for (int i = 0; i < mask.rank(); ++i)
    if (mask.shape()[i] != x.shape()[begin + i]) return {};
  if (shape.rank() > x.rank()) return {};
  for (int i = 1; i <= shape.rank(); ++i)
    if (const int64_t size = shape[shape.rank() - i]; size != 1 && size != x.shape()[x.rank() - i])
      return {};
  return Masked{reshape(mask, places), reshape(source, shape)};
}

/// index_put() for one index tensor along dim.
Variable put_slices(std::string_view op, const Variable& x, int dim, const Variable& tensor,
                    const Variable& source, bool accumulate, Where where) {
  const Variable index = wrapped(op, tensor, x.size(dim));
  Shape named, wanted = x.shape(), along = Dims::filled(x.rank(), 1);
  for (int i = 0; i < dim; ++i) named.push_back(x.shape()[i]);
  for (int i = 0; i < index.rank(); ++i) named.push_back(index.shape()[i]);
  for (int i = dim + 1; i < x.rank(); ++i) named.push_back(x.shape()[i]);
  if (broadcast(op, source.shape(), named) != named)
    fail<ShapeError>(op, ": values of ", source.shape(), " for places of ", named);
  wanted[dim] = along[dim] = index.numel();
  const Variable what = reshape(expand(source, named, where), wanted, where);
  return accumulate ? index_add(x, dim, reshape(index, {index.numel()}), what, 1.0, where)
                    : scatter(x, dim, expand(reshape(index, along), wanted), what, where);
}

/// Returns x with x[subscripts] = values; `op` is the name for errors.
Variable put(std::string_view op, const Variable& x, const Subscripts& subscripts,
             const Operand& values, bool accumulate) {
  const Where where = values.where;
  const ErrorLine line(where);
  const Variable source = without_leading_ones(values_for(op, x, values), where);
  if (const auto dim = only_index(x, subscripts))
    return put_slices(op, x, *dim, subscripts[size_t(*dim)].tensor(), source, accumulate, where);
  if (const auto masked = as_masked(x, subscripts, source)) {
    const auto& [mask, what] = *masked;
    return tapegrad::where(mask, {accumulate ? x + what : what, where}, {x, where});
  }
  // The row-major positions of the elements that the subscripts select.
  const Variable numbers =
      reshape(arange(x.numel(), {.dtype = i64, .device = x.device()}), x.shape());
  const Located located = locate(op, numbers, subscripts, where);
  const Variable named = located.is_view() ? located.view : pick(op, located, where);
  if (broadcast(op, source.shape(), named.shape()) != named.shape())
    fail<ShapeError>(op, ": values of ", source.shape(), " for places of ", named.shape());
  const Shape flat{named.numel()};
  const Variable which = reshape(named, flat);
  const Variable what = reshape(expand(source, named.shape(), where), flat, where);
  const Variable whole = reshape(x, {x.numel()}, where);
  const Variable y = accumulate ? index_add(whole, 0, which, what, 1.0, where)
                                : scatter(whole, 0, which, what, where);
  return reshape(y, x.shape(), where);
}

}  // namespace

Subscript::Subscript(const char* dots) : kind_(Kind::kEllipsis) {
  if (dots == nullptr || std::string_view(dots) != "...")
    fail<ArgumentError>("at: the only text among subscripts is \"...\", not \"",
                        dots == nullptr ? "" : dots, '"');
}

Subscript::Subscript(const std::vector<int64_t>& indices) : Subscript(tapegrad::tensor(indices)) {}

Variable at(const Variable& x, const Subscripts& subscripts, Where where) {
  const ErrorLine line(where);
  const Located located = locate("at", x, subscripts, where);
  if (located.is_view())  // a view also if nothing was selected, with hooks and edges of its own
    return located.view.is_same(x) ? expand(x, x.shape()) : located.view;
  // The last ops of pick() may be views of a result that only they refer to.
  const Variable picked = pick("at", located, where);
  if (!picked.value().is_contiguous()) return picked;
  Variable copy(picked.value());
  copy.set_history(picked.edge());
  return copy;
}

Variable detail::without_leading_ones(const Variable& values, Where where) {
  Shape shape;
  for (int64_t size : values.shape())
    if (size != 1 || shape.rank() > 0) shape.push_back(size);
  return shape.rank() == values.rank() ? values : reshape(values, shape, where);
}

Variable index_put(const Variable& x, const Subscripts& subscripts, const Operand& values,
                   bool accumulate) {
  return put("index_put", x, subscripts, values, accumulate);
}

Variable& index_put_(Variable& x, const Subscripts& subscripts, const Operand& values,
                     bool accumulate) {
  const ErrorLine line(values.where);
  const auto picks = [](const Subscript& s) { return s.kind() == Kind::kTensor && !is_place(s); };
  if (std::ranges::any_of(subscripts, picks))
    return copy_(x, put("index_put_", x, subscripts, values, accumulate), values.where);
  Located located = locate("index_put_", x, subscripts, values.where);
  const Variable source = without_leading_ones(values_for("index_put_", x, values), values.where);
  if (subscripts.empty()) return accumulate ? add_(x, {source, values.where}) : copy_(x, source);
  accumulate ? add_(located.view, {source, values.where})
             : copy_(located.view, source, values.where);
  return x;
}

namespace {

int64_t parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail<ArgumentError>("at: \"", text, "\" is no number");
  return value;
}

Subscript parse_subscript(std::string_view text, const std::vector<Variable>& tensors,
                          size_t& next) {
  if (text == "...") return ellipsis;
  if (text == "None") return newaxis;
  if (text == "t") {
    if (next == tensors.size())
      fail<ArgumentError>("at: more subscripts \"t\" than the ", tensors.size(), " tensors");
    return tensors[next++];
  }
  if (text.find(':') == text.npos) return parse_number(text);
  std::optional<int64_t> parts[3];
  for (std::optional<int64_t>& part : parts) {
    const size_t colon = std::min(text.find(':'), text.size());
    if (colon > 0) part = parse_number(text.substr(0, colon));
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return Slice{parts[0], parts[1], parts[2].value_or(1)};
}

/// Parses "1:, ..., None, -1, t", where each t takes the next tensor.
Subscripts parse_subscripts(const Arguments& a) {
  std::string text = a.text("index");
  std::erase(text, ' ');
  Subscripts subscripts;
  size_t next = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    subscripts.push_back(parse_subscript(rest.substr(0, comma), a.list, next));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (next != a.list.size())
    fail<ArgumentError>("at: ", a.list.size(), " tensors for ", next, " subscripts \"t\" in \"",
                        text, '"');
  return subscripts;
}

}  // namespace

void catalog_subscript(Catalog& catalog) {
  using A = const Arguments&;
  static constexpr auto example = [](DType dtype) -> Arguments {
    const Variable x(Tensor::full({2}, 1, dtype));
    return {.inputs = {x}, .attributes = {{"index", std::string("1:")}}};
  };
  static constexpr auto example_put = [](DType dtype) -> Arguments {
    const Variable x(Tensor::full({2}, 1, dtype));
    return {.inputs = {x, x}, .attributes = {{"index", std::string(":")}}};
  };
  catalog.add("at(input, tensors*, index: str)", "x[index], with t for each tensor",
              [](A a) { return at(a[0], parse_subscripts(a)); }, {.example = example});
  catalog.add("index_put(input, values, tensors*, index: str, accumulate: bool = false)",
              "x with x[index] = values, or += values",
              [](A a) { return index_put(a[0], parse_subscripts(a), a[1], a.flag("accumulate")); },
              {.example = example_put});
  catalog.add("index_put_(input, values, tensors*, index: str, accumulate: bool = false)",
              "x[index] = values, or += values",
              [](A a) {
                Variable x = a[0];
                return index_put_(x, parse_subscripts(a), a[1], a.flag("accumulate"));
              },
              {.inplace = true, .example = example_put});
}

}  // namespace tapegrad
