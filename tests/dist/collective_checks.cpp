// Checks of a Communicator's collectives. Values are compared with sums computed here.
#include <algorithm>
#include <cmath>

#include "core/base/generator.h"
#include "ops/random.h"
#include "tests/dist/checks.h"

namespace tapegrad::dist {

void expect(bool condition, std::string_view text) {
  if (!condition) throw Error("not true: " + std::string(text));
}
void expect_close(const nn::Module& a, const nn::Module& b, std::string_view what) {
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    const Variable x = a.parameters()[i].detach(), y = b.parameters()[i].detach();
    expect((x - y).norm().item() <= 1e-13 * x.norm().item(), what);
  }
}

Variable drawn(uint64_t seed, const Shape& shape) {
  RandomGenerator generator(seed);
  return randn(shape, {.dtype = f64}, generator);
}

void make_equal(const nn::Module& model, const Communicator& world) {
  for (const Variable& each : model.parameters()) world.broadcast(each.value());
}

namespace {

constexpr int64_t kSizes[] = {0, 1, 2, 7, 1000, 4099, 30'001};

/// Value i of a rank: of very different magnitudes, so that the order of a sum shows.
double value_of(int rank, int64_t i) {
  const auto words = philox(uint64_t(rank), uint64_t(i));
  return std::ldexp(double(int32_t(words[0])), int(words[1] % 40) - 43);
}

template <typename T>
Tensor values_of(int rank, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[size_t(i)] = T(value_of(rank, i));
  return Tensor::from<T>(values, {count});
}

template <typename T>
void check_sum(const Communicator& world, int64_t count, ReduceOp op) {
  const Tensor x = values_of<T>(world.rank(), count);
  world.all_reduce(x, {.op = op, .name = "numbers"});
  const T* values = x.data<T>();
  for (int64_t i = 0; i < count; ++i) {
    T sum = T(value_of(0, i));
    for (int r = 1; r < world.size(); ++r) sum = T(sum + T(value_of(r, i)));
    if (op == ReduceOp::kMean) sum = T(sum / T(world.size()));
    if (!equal_bytes(&sum, values + i, sizeof sum))
      expect(false, "element " + std::to_string(i) + " of " + std::to_string(count) +
                        " is the sum in the order of the ranks");
  }
}

void all_reduce_sums_in_order_of_ranks(const Communicator& world) {
  for (const int64_t count : kSizes)
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
      check_sum<float>(world, count, op);
      check_sum<double>(world, count, op);
      check_sum<int64_t>(world, count, op);
      check_sum<int32_t>(world, count, op);
    }
}

void all_reduce_in_pieces(const Communicator& world) {
  const int64_t count = (17 << 20) / 4 + 3;  // above the size of a message
  const Tensor x = Tensor::full({count}, world.rank() + 1, f32);
  world.all_reduce(x);
  const float sum = float(world.size() * (world.size() + 1) / 2);
  const float* values = x.data<float>();
  expect(std::count(values, values + count, sum) == count, "the sum of a large tensor");
}

void all_reduce_of_strided_and_sixteen_bit(const Communicator& world) {
  const Tensor whole = Tensor::full({6, 4}, 1, f32);
  world.all_reduce(whole.with_layout({{3, 2}, {8, 2}, 1}));
  for (int64_t i = 0; i < 24; ++i) {
    const bool is_inside = (i / 4) % 2 == 0 && i % 2 == 1;
    expect(whole.data<float>()[i] == (is_inside ? float(world.size()) : 1.0f), "strided elements");
  }
  const Tensor half = Tensor::full({5}, 256, bf16);  // 256 + 1 is no bfloat16: summed in float32
  if (!world.is_first()) half.data<bfloat16>()[2] = bfloat16(1.0f);
  world.all_reduce(half);
  const float sum = float(bfloat16(256.0f + float(world.size() - 1)));
  expect(float(half.data<bfloat16>()[2]) == sum, "bfloat16 is summed in float32");
}

/// Least, greatest and product, with a NaN of one rank.
void other_reductions(const Communicator& world) {
  const int n = world.size();
  for (const DType dtype : {f32, f64, i64, bf16, u8}) {
    const Tensor x = Tensor::full({5000}, world.rank() + 2, dtype);
    const auto result = [&](ReduceOp op) {
      const Tensor y = x.clone();
      world.all_reduce(y, {.op = op});
      return y.to(f64).data<double>()[4999];
    };
    double product = 1;
    for (int r = 0; r < n; ++r) product *= r + 2;
    expect(result(ReduceOp::kMin) == 2, "the least");
    expect(result(ReduceOp::kMax) == n + 1, "the greatest");
    expect(dtype == u8 || result(ReduceOp::kProduct) == product, "the product");
  }
  const Tensor x = Tensor::full({3}, world.rank() == n - 1 ? NAN : 1.0, f32);
  world.all_reduce(x, {.op = ReduceOp::kMin});
  expect(std::isnan(x.data<float>()[1]), "a NaN stays");
  const Tensor flag = Tensor::full({2}, world.rank() == n - 1, boolean);
  world.all_reduce(flag, {.op = ReduceOp::kMax});
  expect(flag.data<bool>()[0], "whether a rank has true");
}

void compressed_sum(const Communicator& world) {
  if (world.size() == 1) return;  // nothing is sent
  for (const int64_t count : {5, 100'003}) {
    const Tensor x = values_of<float>(world.rank(), count);
    world.all_reduce(x, {.compress = true});
    for (int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int r = 0; r < world.size(); ++r) {
        const float sent = float(bfloat16(float(value_of(r, i))));
        sum = r == 0 ? sent : sum + sent;
      }
      expect(x.data<float>()[i] == float(bfloat16(sum)), "a compressed sum");
    }
  }
}

void broadcast_from_each_rank(const Communicator& world) {
  for (int root = 0; root < world.size(); ++root)
    for (const int64_t count : kSizes) {
      const Tensor x = values_of<double>(world.rank(), count);
      world.broadcast(x, root, "x");
      const Tensor expected = values_of<double>(root, count);
      expect(equal_bytes(x.data<double>(), expected.data<double>(), size_t(count) * 8),
             "the values of the root");
    }
}

void gather_and_scatter(const Communicator& world) {
  const int n = world.size();
  for (const int64_t count : kSizes) {
    const Tensor all = world.all_gather(values_of<float>(world.rank(), count), "x");
    expect(all.shape() == Shape{n, count}, "the shape of gathered tensors");
    for (int r = 0; r < n; ++r)
      expect(equal_bytes(all.data<float>() + r * count, values_of<float>(r, count).data<float>(),
                         size_t(count) * 4),
             "the values of rank " + std::to_string(r));
    const Tensor x = values_of<double>(world.rank(), n * count);
    const Tensor part = world.reduce_scatter(x, {.op = ReduceOp::kMean});
    world.all_reduce(x, {.op = ReduceOp::kMean});
    expect(part.numel() == count, "the size of a part");
    expect(equal_bytes(part.data<double>(), x.data<double>() + world.rank() * count,
                       size_t(count) * 8),
           "a part of the sum");
  }
}

void to_and_from_one_rank(const Communicator& world) {
  const int n = world.size();
  for (const int64_t count : {0, 1, 7, 30'001})
    for (int root = 0; root < n; ++root) {
      const bool is_root = world.rank() == root;
      const Tensor x = values_of<double>(world.rank(), count), sum = x.clone(), part = x.clone();
      const Tensor all = world.gather(x, root, "x");
      expect(bool(all) == is_root, "only the root has what was gathered");
      world.all_reduce(sum);
      world.reduce(part, root);
      expect(
          equal_bytes(part.data<double>(), (is_root ? sum : x).data<double>(), size_t(count) * 8),
          "the sum is on the root, and others keep their values");
      const Tensor own = Tensor::empty({count}, f64);
      world.scatter(all, own, root, "x");
      expect(equal_bytes(own.data<double>(), x.data<double>(), size_t(count) * 8),
             "each rank receives what it gave");
    }
}

void all_to_all_is_a_transposition(const Communicator& world) {
  const int n = world.size();
  for (const int64_t count : {0, 1, 30'001, 2'500'001}) {  // the last one in pieces
    const Tensor x = Tensor::empty({n, count}, i32);
    for (int r = 0; r < n; ++r)
      std::fill_n(x.data<int32_t>() + r * count, count, world.rank() * 1000 + r);
    const Tensor y = world.all_to_all(x, "tokens");
    expect(y.shape() == x.shape(), "the shape of the result");
    for (int r = 0; r < n; ++r) {
      const int32_t* part = y.data<int32_t>() + r * count;
      expect(std::count(part, part + count, r * 1000 + world.rank()) == count, "a part of a rank");
    }
  }
}

void operands_may_be_variables(const Communicator& world) {
  const Variable x = Variable(Tensor::full({3}, 1, f32)).requires_grad_();
  world.all_reduce(x);
  expect(x.value().data<float>()[2] == float(world.size()), "the value of a variable");
  world.broadcast(x);
  expect(world.all_gather(x).shape() == Shape{world.size(), 3}, "values of variables");
}

void numbers_and_texts(const Communicator& world) {
  expect(world.max(world.rank() * 3) == (world.size() - 1) * 3, "max");
  const std::vector<double> mean = world.mean({double(world.rank()), 4.0});
  expect(mean == std::vector<double>{(world.size() - 1) / 2.0, 4.0}, "mean");
  const auto texts = world.all_gather_text(std::string(size_t(world.rank()), 'x') + "!");
  for (int r = 0; r < world.size(); ++r)
    expect(texts[size_t(r)] == std::string(size_t(r), 'x') + "!", "the text of a rank");
  const std::string object = "{\"epoch\": 3, \"name\": \"" + std::string(40'000, 'x') + "\"}";
  for (int root = 0; root < world.size(); ++root) {
    const bool is_root = world.rank() == root;
    expect(world.broadcast_text(is_root ? object : "own", root) == object, "the root's object");
    expect(world.broadcast_text(is_root ? "" : "own", root).empty(), "an empty text");
  }
  world.barrier("the middle");
}

void collectives_overlap_in_order(const Communicator& world) {
  std::vector<Tensor> tensors;
  std::vector<Pending> pending;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(Tensor::full({int64_t(i) * 500}, i, f32));
    pending.push_back(
        world.start_all_reduce(tensors.back(), {.name = "number " + std::to_string(i)}));
  }
  for (int i = 0; i < 20; ++i) {
    pending[size_t(i)].wait();
    const int64_t count = tensors[size_t(i)].numel();
    const float* values = tensors[size_t(i)].data<float>();
    expect(std::count(values, values + count, float(i * world.size())) == count, "a sum of many");
  }
}

void ranks_that_differ_are_told(const Communicator& world) {
  if (world.size() == 1) return;
  const bool is_odd = world.rank() == world.size() - 1;
  std::string message;
  try {
    world.all_reduce(Tensor::full({is_odd ? 5 : 4}, 1, f32), {.name = "fc1.weight"});
  } catch (const MismatchError& error) {
    message = error.what();
  }
  expect(message.find("fc1.weight (float32, 5 elements)") != message.npos &&
             message.find("fc1.weight (float32, 4 elements)") != message.npos,
         "a message about sizes: " + message);
  message.clear();
  try {
    if (is_odd)
      world.barrier();
    else
      world.all_reduce(Tensor::full({3}, 1, f64));
  } catch (const MismatchError& error) {
    message = error.what();
  }
  expect(message.find("barrier") != message.npos && message.find("all_reduce") != message.npos,
         "a message about kinds: " + message);
  const auto expect_told = [&](auto call, const char* text) {
    message.clear();
    try {
      call();
    } catch (const MismatchError& error) {
      message = error.what();
    }
    expect(message.find(text) != message.npos, std::string(text) + " in: " + message);
  };
  expect_told(
      [&] {
        (void)world.all_gather(Tensor::full(is_odd ? Shape{3, 2} : Shape{2, 3}, 1, f32), "x");
      },
      "all_gather of x (float32 [3, 2])");
  expect_told([&] { world.all_reduce(Tensor::full({3}, 1, f32), {.compress = is_odd}); },
              "all_reduce (sum, compressed)");
  expect_told([&] { world.broadcast(Tensor::full({3}, 1, f32), is_odd); }, "from rank 1");
  world.barrier("all are still here");
}

void wrong_arguments(const Communicator& world) {
  const auto throws = [](auto call) {
    try {
      call();
    } catch (const ArgumentError&) {
      return true;
    }
    return false;
  };
  expect(throws([&] { world.all_reduce(Tensor::full({2}, 1, boolean)); }), "bool has no sum");
  expect(throws([&] { world.broadcast(Tensor::full({2}, 1, f32), world.size()); }), "root");
  expect(throws([&] { world.set_timeout(0); }), "a timeout of 0");
  expect(throws([&] { world.set_timeout(NAN); }), "no timeout");
  expect(throws([&] { world.gather(Tensor::full({2}, 1, f32), -1); }), "a negative root");
  expect(throws([&] { world.all_to_all(Tensor::full({}, 1, f32)); }), "all_to_all of a number");
  expect(throws([&] { world.scatter({}, Tensor::full({2}, 1, f32), world.rank()); }),
         "nothing to scatter");
  expect(throws([&] { world.group({0, world.size()}); }), "a rank that does not exist");
  expect(throws([&] { world.group({0, 0}); }), "a rank twice");
  expect(world.size() == 1 ||
             throws([&] { world.reduce_scatter(Tensor::full({world.size() + 1}, 1, f32)); }),
         "parts of different sizes");
}

}  // namespace

const std::vector<Check>& collective_checks() {
  static const std::vector<Check> all = {
      {"all_reduce sums in the order of the ranks", all_reduce_sums_in_order_of_ranks},
      {"all_reduce in pieces", all_reduce_in_pieces},
      {"all_reduce of strided and sixteen-bit values", all_reduce_of_strided_and_sixteen_bit},
      {"product, least and greatest", other_reductions},
      {"compressed sum", compressed_sum},
      {"broadcast from each rank", broadcast_from_each_rank},
      {"gather and scatter", gather_and_scatter},
      {"to and from one rank", to_and_from_one_rank},
      {"all_to_all is a transposition", all_to_all_is_a_transposition},
      {"operands may be variables", operands_may_be_variables},
      {"numbers and texts", numbers_and_texts},
      {"collectives overlap in order", collectives_overlap_in_order},
      {"ranks that differ are told", ranks_that_differ_are_told},
      {"wrong arguments", wrong_arguments}};
  return all;
}

}  // namespace tapegrad::dist
