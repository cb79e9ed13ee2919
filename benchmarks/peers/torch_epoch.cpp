// Version of benchmarks/epoch.cpp for libtorch, with the same net, batches, optimizer and files.
// The images stay in one tensor, from which batches are gathered by index.
//
//   torch_epoch [directory of the data]
#include <zlib.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "benchmarks/measure.h"
#include "benchmarks/peers/torch_keras.h"

namespace {

using torch::Tensor;

/// Returns the bytes after the header of an IDX file, gzipped or not.
Tensor read_idx(const std::string& path, int64_t header, int64_t count) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  Tensor bytes = torch::empty({header + count}, torch::kUInt8);
  const int read = gzread(file, bytes.data_ptr(), unsigned(bytes.numel()));
  gzclose(file);
  if (read != bytes.numel()) throw std::runtime_error(path + " is too short");
  return bytes.slice(0, header);
}

struct Images {
  Tensor pixels, labels;

  Images(const std::string& begin, int64_t count)
      : pixels(read_idx(begin + "-images-idx3-ubyte.gz", 16, count * 784)
                   .reshape({count, 1, 28, 28})
                   .to(torch::kFloat)
                   .div_(255)),
        labels(read_idx(begin + "-labels-idx1-ubyte.gz", 8, count).to(torch::kLong)) {}
};

void train(torch::nn::Sequential& net, const Images& images) {
  peers::Adadelta optimizer(net->parameters());
  const Tensor order = torch::randperm(images.labels.size(0));
  for (const Tensor& batch : order.split(128)) {
    optimizer.zero_grad();
    const Tensor output = net->forward(images.pixels.index_select(0, batch));
    torch::nn::functional::cross_entropy(output, images.labels.index_select(0, batch)).backward();
    optimizer.step();
  }
}

double accuracy(torch::nn::Sequential& net, const Images& images) {
  const torch::NoGradGuard no_grad;
  net->eval();
  int64_t right = 0;
  const auto pixels = images.pixels.split(500), labels = images.labels.split(500);
  for (size_t i = 0; i < pixels.size(); ++i)
    right += (net->forward(pixels[i]).argmax(1) == labels[i]).sum().item<int64_t>();
  return double(right) / double(images.labels.size(0));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  try {
    const Images training(directory + "/train", 60'000), test(directory + "/t10k", 10'000);
    torch::manual_seed(1);
    torch::nn::Sequential net = peers::keras_net();
    const double begin = bench::seconds();
    train(net, training);
    bench::print_line("fashion_epoch", bench::seconds() - begin, "s");
    bench::print_line("fashion_accuracy", accuracy(net, test) * 100, "%");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_epoch: %s\n", error.what());
    return 1;
  }
}
