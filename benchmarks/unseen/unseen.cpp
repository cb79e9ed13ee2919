// Times a step of each of the networks in benchmarks/unseen. benchmarks/steps.h describes the
// command line.
#include "benchmarks/unseen/networks.h"

int main(int argc, char** argv) {
  using namespace tapegrad::bench;
  std::vector<Network> networks;
  for (const auto& part : {image_networks(), dense_image_networks(), sequence_networks(),
                           other_networks(), further_networks()})
    networks.insert(networks.end(), part.begin(), part.end());
  return run_networks(networks, argc, argv);
}
