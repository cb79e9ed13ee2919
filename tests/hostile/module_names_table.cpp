// Rows for samplers, lists of modules, buffers, and functions that return the sizes of layers.
#include "data/enumerate.h"
#include "data/item_loader.h"
#include "data/sampler.h"
#include "data/split.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "nn/weight_norm.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "optim/combined_schedulers.h"
#include "optim/optimizers.h"
#include "tests/hostile/kit.h"

namespace tapegrad::testing {
namespace {

struct WithBuffer : nn::Model<WithBuffer> {
  nn::Linear fc{3, 2};
  nn::Buffer mean;
  explicit WithBuffer(const Variable& value) : mean(value) {}
  void members(nn::Members& m) override { m("fc", fc)("mean", mean); }
  Variable forward(const Variable& x) const { return fc(x); }
};

void add_op_rows(Table& table) {
  table.add("Tensor::sizes", [](const Tensor& x) { x.sizes(); });
  table.add("Variable::ndimension", [](const Variable& x) { x.ndimension(); });
  table.add("randint_like", [](const Variable& x, int64_t low, int64_t high) {
    if (is_small(x)) randint_like(x, low, high);
  });
  table.add("RandomGenerator::manual_seed",
            [](int64_t seed) { RandomGenerator().manual_seed(uint64_t(seed)); });
  table.leave_out("the compiler refuses it", "eig eigvals");
}

void add_module_rows(Table& table) {
  table.add(
      "Buffer::Buffer Module::modules Module::named_children Module::children Module::is "
      "Module::get_submodule Module::get_parameter Model::train Model::eval Model::requires_grad_",
      [](const Variable& value, const std::string& name, bool on) {
        WithBuffer net(value);
        net.modules(), net.children(), net.named_children(), net.is<nn::Linear>();
        net.train(on).eval().requires_grad_(on);
        net.clone().state_dict();
        try {
          net.get_submodule(name);
        } catch (const Error&) {
        }
        net.get_parameter(name);
      });
  table.add(
      "AnyModule::is AnyModule::as ModuleList::append ModuleList::ModuleList "
      "ModuleList::clone ModuleDict::insert ModuleDict::ModuleDict ModuleDict::clone "
      "ModuleList::kind ModuleList::members ModuleList::copy ModuleList::bytes "
      "ModuleDict::kind ModuleDict::members ModuleDict::copy ModuleDict::bytes",
      [](const std::string& key, int64_t i) {
        nn::ModuleList list;
        list.append(nn::Linear(3, 2));
        nn::ModuleDict dict;
        dict.insert(key, list[0]);
        const nn::ModuleDict& same = dict;
        if (i % 2 == 0) list.emplace_back();
        list.back().is<nn::Linear>(), list.back().as<nn::Linear>();
        for (nn::Module* each : std::initializer_list<nn::Module*>{&list, &dict})
          each->kind(), each->copy(), each->bytes(), each->named_children();
        list.clone(), dict.clone();
        if (same.contains(key)) same[key].as<nn::Conv2d>();
      });
  table.add("Embedding::from_pretrained Embedding::num_embeddings Embedding::embedding_dim",
            [](const Variable& rows, bool freeze, int64_t padding, const Labels& ids) {
              const auto table = nn::Embedding::from_pretrained(rows, freeze, padding);
              table.num_embeddings(), table.embedding_dim(), table(ids.x);
            });
  table.add("Linear::in_features Linear::out_features Conv::in_channels Conv::out_channels",
            [](int64_t in, int64_t out) {
              if (in > 1000 || out > 1000) return;
              const nn::Linear fc({.in_features = in, .out_features = out});
              fc.in_features(), fc.out_features();
              const nn::Conv2d conv({.in_channels = in, .out_channels = out, .kernel_size = 2});
              conv.in_channels(), conv.out_channels();
            });
  table.add(
      "AnyModule::parameters AnyModule::named_parameters AnyModule::requires_grad_ "
      "Sequential::at AnyModule::forward AnyModule::get ParameterDict::ParameterDict "
      "ParameterDict::insert ParameterList::ParameterList ParameterList::push_back",
      [](const Variable& x, int64_t index, const std::string& key) {
        const nn::Sequential net(nn::Linear(3, 3), nn::ReLU());
        attempt([&] { net.at<nn::Linear>(index); }, [&] { nn::AnyModule().forward(x); },
                [&] { nn::AnyModule().get<nn::ReLU>(); }, [&] { nn::AnyModule().parameters(); },
                [&] { nn::AnyModule().named_parameters(); },
                [&] { nn::AnyModule().requires_grad_(); });
        nn::ParameterDict scales;
        scales.insert(key, x), scales.insert({key + "2", x});
        nn::ParameterDict({{key, x}}), nn::ParameterList({x, x}).push_back(x);
        nn::AnyModule(nn::Linear(3, 3)).forward(x);
      });
  table.add("KLDivReduction::KLDivReduction",
            [](const Variable& x, const Variable& t, const std::string& reduction) {
              nn::KLDivLoss({.reduction = std::string_view(reduction)})(x, t);
            });
}

struct Numbers {
  int64_t count;
  int64_t size() const { return count; }
  Variable get(int64_t i) const { return scalar(i); }
};

/// "Type::name Type::other "
std::string parts_of(const std::string& type, std::initializer_list<const char*> names) {
  std::string all;
  for (const char* name : names) all += type + "::" + name + ' ';
  return all;
}

void add_data_rows(Table& table) {
  table.add(
      "WeightedRandomSampler::WeightedRandomSampler WeightedRandomSampler::size "
      "WeightedRandomSampler::indices AnySampler::AnySampler AnySampler::get Sampler::size "
      "Sampler::indices epoch_size",
      [](const Variable& weights, int64_t count, bool replacement, int64_t epoch) {
        if (!is_small(weights) || count > 100'000) return;
        const WeightedRandomSampler sampler(weights, count, replacement, uint64_t(epoch));
        sampler.size(), sampler.indices(uint64_t(epoch));
        ItemLoader loader(Numbers{2}, {.batch_size = 2, .sampler = sampler});
        epoch_size(count, {.sampler = sampler});
        for (const Variable& batch : loader) sum(batch);
      });
  table.add(
      "SubsetRandomSampler::SubsetRandomSampler SubsetRandomSampler::size "
      "SubsetRandomSampler::indices ItemSubset::ItemSubset ItemSubset::size ItemSubset::get",
      [](int64_t index, int64_t count) {
        const SubsetRandomSampler sampler({0, index}, uint64_t(count));
        sampler.size(), sampler.indices(uint64_t(index));
        const ItemSubset part(Numbers{count % 100}, {0, index});
        part.size(), part.get(index, default_generator());
        for (const Variable& batch : ItemLoader(part, {.batch_size = 2})) sum(batch);
      });
  table.add(
      "RandomSampler::RandomSampler RandomSampler::size RandomSampler::indices "
      "SequentialSampler::SequentialSampler SequentialSampler::size SequentialSampler::indices",
      [](int64_t examples, int64_t samples, bool replacement, int64_t epoch) {
        if (examples > 100'000 || samples > 100'000) return;
        const RandomSampler drawn(examples, {.replacement = replacement, .num_samples = samples});
        drawn.size(), drawn.indices(uint64_t(epoch));
        const SequentialSampler in_order(examples);
        in_order.size(), in_order.indices(uint64_t(epoch));
      });
  table.add("KFold::KFold KFold::split", [](int64_t folds, int64_t examples, bool shuffle) {
    if (folds > 1000 || examples > 100'000) return;
    KFold({.n_splits = folds, .shuffle = shuffle}).split(examples);
    KFold(folds, {.shuffle = shuffle}).split(examples);
  });
  table.add("train_test_split", [](const Variable& x, double test_size, bool shuffle) {
    train_test_split(x, x, {.test_size = test_size, .shuffle = shuffle});
  });
}

}  // namespace

void add_module_name_rows(Table& table) {
  table.add(
      "Module::weight Module::bias AnyModule::weight AnyModule::bias NamedList::contains "
      "NamedList::find NamedList::keys NamedList::values Sequential::replace Sequential::insert "
      "ListOf::extend ModuleDict::at",
      [](const std::string& name, int64_t place) {
        nn::Sequential net(nn::Linear(2, 3), nn::ReLU());
        attempt([&] { net[name].weight(), net[name].bias(); });
        attempt([&] { net[place].weight(), (*net.begin()).bias(); });
        const nn::NamedVariables named = net.named_parameters();
        named.contains(name), named.find(name), named.keys(), named.values();
        attempt([&] { named[name]; });
        attempt([&] { nn::ModuleDict({{"0", nn::ReLU()}}).at(name); });
        nn::ModuleList list;
        list.extend({nn::Linear(2, 3)});
        attempt([&] { (*list.begin()).weight(), (*list.begin()).bias(); });
        attempt([&] { net.insert(place, nn::Linear(2, 3)); });
        net.replace(place, nn::ReLU());
      });
  table.add("LstmState::LstmState", [](const Variable& x, const Variable& h, const Variable& c) {
    if (x.numel() > 10'000) return;
    nn::LSTM(2, 3)(x, {h, c});
  });
  table.add("Amount::Amount Amount::of l1_unstructured random_unstructured remove is_pruned",
            [](const std::string& name, double share, int64_t count) {
              nn::Linear layer(2, 3);
              attempt([&] { nn::utils::prune::l1_unstructured(layer, "weight", share); });
              attempt([&] { nn::utils::prune::random_unstructured(layer, "weight", count); });
              attempt([&] { nn::utils::prune::l1_unstructured(layer, name, count); });
              nn::utils::prune::is_pruned(layer);
              nn::utils::prune::remove(layer, name);
            });
  table.add("iter next BatchIterator::next", [](const Variable& x, int64_t batch) {
    if (!x.defined() || x.numel() > 10'000) return;
    DataLoader loader(TensorDataset(x, x), {.batch_size = batch});
    auto batches = iter(loader);
    next(batches), next(batches);
  });
  table.add(parts_of("Enumerate", {"Enumerate", "begin", "end", "Iterator::Iterator"}) +
                "enumerate zip len Enumerated::Enumerated",
            [](const Variable& x, int64_t start, int64_t batch) {
              if (!x.defined() || x.numel() > 10'000) return;
              attempt([&] { len(x); });
              DataLoader loader(TensorDataset(x, x), {.batch_size = batch});
              for (auto& [i, item] : enumerate(loader, start)) item[i % 4];
              len(loader);
              zip(std::vector{x, x}, std::vector{start});
            });
  table.add(parts_of("BatchSampler", {"BatchSampler", "begin", "end", "size"}),
            [](int64_t examples, int64_t batch, bool drop_last) {
              if (examples > 100'000) return;
              BatchSampler lists(RandomSampler(examples), batch, drop_last);
              for (const auto& list : lists) list.at(0);
              lists.size();
            });
  table.add("Variable::Property Variable::set_grad Tensor::copy_ copy_", [](const Variable& given,
                                                                            const Variable& other) {
    if (!given.defined() || !other.defined()) return;
    Variable x = given.detach().clone(), y = other.detach().clone();
    attempt([&] { x.set_grad(y); }, [&] { x.grad() = y; }, [&] { x.grad() = 1.0; },
            [&] { x.data() = y; }, [&] { x.data() = x.data() * 2; }, [&] { x.data() = y.grad(); },
            [&] { (x * 2).data() = y; }, [&] { x.grad() += y; });
    Variable leaf = ones({2}).requires_grad_();
    attempt([&] { leaf.grad() = x; }, [&] { leaf.data() = y; });
    leaf.set_grad(y);
  });
  table.add("Dims::sizes GradientOfOne::GradientOfOne chunk split split_with_sizes unbind",
            [](const Variable& x, const Variable& y) {
              attempt([&] { x.sizes<2>(); }, [&] { x.shape().sizes<0>(); }, [&] { x.chunk<2>(); },
                      [&] { x.unbind<1>(-1); }, [&] { x.split<2>(1, 1); },
                      [&] {
                        split_with_sizes(x, {1, 2}, -1);
                      });
              Variable dx = grad(y, x, y, true, false, true);
            });
  table.add("Unique::numel Unique::size Unique::sizes Unique::to_vector", [](const Variable& x) {
    if (!is_small(x)) return;
    const Unique all = unique(x);
    all.numel(), all.size(0), all.sizes(), all.to_vector<double>();
  });
  table.add(
      "Module::training ModuleDict::keys Sequential::add_module Sequential::empty Rates::Rates "
      "Scheduler::last_epoch SchedulerRef::SchedulerRef",
      [](const std::string& name, const Variable& x, int64_t milestone) {
        nn::Sequential net;
        net.add_module(name, nn::Linear(2, 3));
        net.empty(), net.training();
        nn::ModuleDict{{name, nn::ReLU()}}.keys();
        optim::SGD sgd(net, {.lr = 0.1, .maximize = true});
        optim::LinearLR first(sgd, 0.1, 1.0, 3), second(sgd, 0.5, 1.0, 3);
        optim::SequentialLR schedule(sgd, {first, second}, {milestone});
        attempt([&] { sum(net(x)).backward(), sgd.step(); });
        schedule.step(), schedule.last_epoch(), optim::SchedulerRef(first)->last_epoch();
        schedule.get_last_lr().at(0);
      });
  add_op_rows(table);
  add_module_rows(table);
  add_data_rows(table);
}

}  // namespace tapegrad::testing
