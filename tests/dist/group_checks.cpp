// Checks of communicators of some of the ranks.
#include "dist/collective_ops.h"
#include "dist/data_parallel.h"
#include "dist/tensor_parallel.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/dist/checks.h"

namespace tapegrad::dist {
namespace {

double sum_of_ranks(const Communicator& group, int rank) {
  const Tensor x = Tensor::full({3000}, rank, f64);
  group.all_reduce(x);
  return x.data<double>()[2999];
}

void ranks_of_a_color(const Communicator& world) {
  const int n = world.size(), rank = world.rank();
  const Communicator same = world.split(rank % 2);
  double expected = 0;
  int size = 0, own = 0;
  for (int r = rank % 2; r < n; r += 2) {
    if (r < rank) ++own;
    ++size;
    expected += r;
  }
  expect(same.size() == size && same.rank() == own, "number and place in the group");
  expect(sum_of_ranks(same, rank) == expected, "the sum over a group");
  expect(same.max(rank) >= rank, "a number of the group");
  const Tensor all = same.all_gather(Tensor::full({}, rank, i64));
  for (int i = 0; i < size; ++i)
    expect(all.data<int64_t>()[i] == rank % 2 + 2 * i, "members are in the order of their ranks");
  const Tensor root = Tensor::full({2}, rank, i64);
  same.broadcast(root, size - 1);
  expect(root.data<int64_t>()[0] == rank % 2 + 2 * (size - 1), "broadcast in a group");
  // Groups of groups, and all ranks again.
  const Communicator alone = same.split(same.rank());
  expect(alone.size() == 1 && sum_of_ranks(alone, rank) == rank, "a group of one");
  expect(sum_of_ranks(world, 1) == n, "all ranks");
}

void ranks_of_a_list(const Communicator& world) {
  const std::vector<int> ranks = world.size() > 2 ? std::vector{0, 2} : std::vector{0};
  const Communicator some = world.group(ranks);
  const bool is_member = world.rank() == 0 || (world.size() > 2 && world.rank() == 2);
  expect(some.size() == (is_member ? int(ranks.size()) : 1), "the size of a list of ranks");
  expect(sum_of_ranks(some, world.rank()) == (!is_member         ? world.rank()
                                              : world.size() > 2 ? 2
                                                                 : 0),
         "the sum over a list of ranks");
}

void messages_name_the_members(const Communicator& world) {
  if (world.size() < 4) return;
  const Communicator same = world.split(world.rank() % 2);
  std::string message;
  try {
    same.all_reduce(Tensor::full({world.rank() < 2 ? 3 : 4}, 1, f32), {.name = "fc1.weight"});
  } catch (const MismatchError& error) {
    message = error.what();
  }
  const std::string first = std::to_string(world.rank() % 2);
  expect(message.find("rank " + first + " number") != message.npos &&
             message.find("by ranks " + first + ", ") != message.npos,
         "a message about a group: " + message);
}

/// Layers are split over pairs of ranks, and the pairs share the batch: with an even number of
/// ranks, training equals that of one process.
void pairs_of_split_layers_share_a_batch(const Communicator& world) {
  if (world.size() % 2 != 0) return;
  const int64_t pairs = world.size() / 2, batch = 3;
  const Communicator pair = world.split(world.rank() / 2), others = world.split(world.rank() % 2);
  nn::Linear up(4, 6), down(6, 2);
  for (nn::Linear* each : {&up, &down}) make_equal(each->to(f64), world);
  ColumnLinear column(up, pair);
  RowLinear row(down, pair);
  nn::Sequential split(column, row);
  const DataParallel net(split, others);
  optim::SGD one({up.weight, up.bias, down.weight, down.bias}, 0.1), all(net, 0.1);
  const Variable x = drawn(4, {pairs * batch, 4});
  for (int step = 0; step < 3; ++step) {
    one.zero_grad();
    mean(square(down(tanh(up(x))))).backward();
    one.step();
    all.zero_grad();
    mean(square(row(tanh(column(x.narrow(0, others.rank() * batch, batch)))))).backward();
    all.step();
  }
  const Variable part = up.weight.detach().narrow(0, 3 * pair.rank(), 3);
  expect((part - column.weight.detach()).norm().item() <= 1e-13 * part.norm().item(),
         "split layers of several pairs");
}

/// The gradients of gathered, scattered and exchanged values are those of one process.
void collectives_have_gradients(const Communicator& world) {
  const int64_t n = world.size(), rank = world.rank();
  const Variable weights = drawn(11, {n, n * 2});
  const auto own = [&](const Variable& x) { return x.narrow(0, rank, 1).clone().reshape({n * 2}); };
  Variable x = own(drawn(12, {n, n * 2})).requires_grad_();
  // Every rank uses all values with weights of its own.
  sum(all_gather(x, world) * (weights * double(rank + 1))).backward();
  const double ranks = double(n * (n + 1)) / 2;
  expect((x.grad() - own(weights) * ranks).norm().item() <= 1e-13, "the gradient of all_gather");
  x.zero_grad();
  const Variable part = own(weights).narrow(0, 0, 2) * double(rank + 1);
  sum(reduce_scatter(x, world) * part).backward();
  const Tensor parts = world.all_gather(part);
  expect((x.grad() - Variable(parts).reshape({n * 2})).norm().item() <= 1e-13,
         "the gradient of reduce_scatter");
  x.zero_grad();
  sum(all_to_all(x, world) * own(weights)).backward();
  for (int64_t r = 0; r < n; ++r)
    expect((x.grad().narrow(0, 2 * r, 2) -
            weights.narrow(0, r, 1).reshape({n * 2}).narrow(0, 2 * rank, 2))
                   .norm()
                   .item() <= 1e-13,
           "the gradient of all_to_all");
}

}  // namespace

const std::vector<Check>& group_checks() {
  static const std::vector<Check> all = {
      {"ranks of a color", ranks_of_a_color},
      {"ranks of a list", ranks_of_a_list},
      {"messages name the members of a group", messages_name_the_members},
      {"pairs of split layers share a batch", pairs_of_split_layers_share_a_batch},
      {"collectives have gradients", collectives_have_gradients}};
  return all;
}

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (const auto* checks :
       {&collective_checks(), &group_checks(), &training_checks(), &loop_checks(),
        &local_gradient_checks(), &model_checks(), &fit_checks(), &sharded_fit_checks()})
    all.insert(all.end(), checks->begin(), checks->end());
  return all;
}

}  // namespace tapegrad::dist
