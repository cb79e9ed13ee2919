// T12: a write whose operands overlap its target has the result of the same write with copies of
// the operands, or throws an error. The write never reads elements that it has written.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/subscript.h"
#include "ops/view.h"

namespace tapegrad::testing {
namespace {

/// Writes into a. Reads b, which is a itself or a copy of it.
struct Write {
  const char* name;
  std::function<void(Variable& a, const Variable& b)> run;
};

const std::vector<Write>& writes() {
  using V = Variable;
  static const std::vector<Write> all = {
      {"x -= x.t", [](V& a, const V& b) { a -= b.t(); }},
      {"x *= x.t", [](V& a, const V& b) { a *= b.t(); }},
      {"x.copy_(x.t)", [](V& a, const V& b) { a.copy_(b.t()); }},
      {"x.copy_(x.flip)",
       [](V& a, const V& b) {
         a.copy_(b.flip({0, 1}));
       }},
      {"x.copy_(x.rot90)", [](V& a, const V& b) { a.copy_(b.rot90()); }},
      {"x[1:] += x[:-1]", [](V& a, const V& b) { a.slice(0, 1, kEnd) += b.slice(0, 0, -1); }},
      {"x[:-1] += x[1:]", [](V& a, const V& b) { a.slice(0, 0, -1) += b.slice(0, 1, kEnd); }},
      {"x[1:] = x[:-1]", [](V& a, const V& b) { a.slice(0, 1, kEnd) = b.slice(0, 0, -1); }},
      {"x[:, 1:] = x[:, :-1]", [](V& a, const V& b) { a.slice(1, 1, kEnd) = b.slice(1, 0, -1); }},
      {"x[:, 1:] *= x[:, :-1]", [](V& a, const V& b) { a.slice(1, 1, kEnd) *= b.slice(1, 0, -1); }},
      {"x[:2] -= x[:, :2].t",
       [](V& a, const V& b) { a.slice(0, 0, 2).sub_(b.slice(1, 0, 2).t()); }},
      {"x += x[0]", [](V& a, const V& b) { a += b[0]; }},
      {"x -= x[:, :1]", [](V& a, const V& b) { a -= b.slice(1, 0, 1); }},
      {"x /= x[0][0]", [](V& a, const V& b) { a /= b[0][0]; }},
      {"x *= diagonal", [](V& a, const V& b) { a *= b.diagonal(); }},
      {"diagonal += x[0]", [](V& a, const V& b) { a.diagonal().add_(b[0]); }},
      {"addmm_", [](V& a, const V& b) { a.addmm_(b, b.t()); }},
      {"addcmul_", [](V& a, const V& b) { a.addcmul_(b.t(), b, 0.5); }},
      {"lerp_", [](V& a, const V& b) { a.lerp_(b.t(), 0.3); }},
      {"fmod_", [](V& a, const V& b) { a.fmod_(b.t()); }},
      {"clamp_", [](V& a, const V& b) { a.clamp_(b.t(), b.t() + 1); }},
      {"masked_fill_", [](V& a, const V& b) { a.masked_fill_(b.t() > 0, 1.0); }},
      {"x[x > 0] = -x[x > 0]", [](V& a, const V& b) { a[b > 0] = -b.masked_select(b > 0); }},
      {"index_add_", [](V& a, const V& b) { a.index_add_(0, arange(b.size(0)).flip({0}), b); }},
      {"index_copy_", [](V& a, const V& b) { a.index_copy_(0, arange(b.size(0)).flip({0}), b); }},
      {"scatter_",
       [](V& a, const V& b) { a.scatter_(1, arange(b.size(0)).flip({0}).expand(b.shape()), b); }},
      {"scatter_add_",
       [](V& a, const V& b) {
         a.scatter_add_(1, arange(b.size(0)).flip({0}).expand(b.shape()), b.t());
       }},
      {"index_put_ of rows",
       [](V& a, const V& b) { a.index_put_({arange(b.size(0)).flip({0})}, b); }},
      {"index_put_ of a slice",
       [](V& a, const V& b) { a.index_put_({Slice{1}}, b.slice(0, 0, -1)); }},
      {"a moved operand", [](V& a, const V& b) { a = std::move(a) - b.t(); }},
      {"a moved operand of where", [](V& a, const V& b) { a = where(b > 0, std::move(a), b.t()); }},
  };
  return all;
}

TEST(HostileAliases, T12_OperandsThatOverlapTheTarget) {
  for (const int64_t size : {4, 37, 70}) {
    const Variable start = randn({size, size});
    for (const Write& write : writes()) {
      SCOPED_TRACE(write.name + (" of " + std::to_string(size)));
      Variable want = start.clone();
      write.run(want, start.clone());
      Variable x = start.clone();
      try {
        write.run(x, x);
      } catch (const Error&) {
        want = start;
      }
      EXPECT_TRUE(x.equal(want));
    }
  }
}

}  // namespace
}  // namespace tapegrad::testing
