// Process groups over libtorch's own c10d: a TCP store for the rendezvous, gloo for the collectives.

#include "shim.h"
#include "errors.h"

#include <chrono>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

struct shockwave_group {
  // Kept for as long as the group: rank 0's store serves the others.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
};

namespace {

std::vector<at::Tensor> one(void* tensor) {
  return {*static_cast<at::Tensor*>(tensor)};
}

} // namespace

shockwave_group* shockwave_group_join(
    const char* host,
    uint16_t port,
    bool serve,
    const char* prefix,
    const char* address,
    int rank,
    int size,
    int64_t timeout_ms,
    char** error) {
  return shockwave::guard<shockwave_group*>(error, nullptr, [&]() {
    const std::chrono::milliseconds timeout(timeout_ms);
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = serve;
    options.numWorkers = size;
    options.waitWorkers = false;
    options.timeout = timeout;
    auto tcp = c10::make_intrusive<c10d::TCPStore>(host, options);
    auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, tcp);
    auto gloo_options = c10d::ProcessGroupGloo::Options::create(timeout);
    gloo_options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname(address)};
    auto gloo =
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, gloo_options);
    return new shockwave_group{store, gloo};
  });
}

void shockwave_group_free(shockwave_group* group) {
  delete group;
}

bool shockwave_all_reduce(shockwave_group* group, void* tensor, bool maximum, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    auto tensors = one(tensor);
    c10d::AllreduceOptions options;
    options.reduceOp = maximum ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    group->gloo->allreduce(tensors, options)->wait();
    return true;
  });
}

bool shockwave_broadcast(shockwave_group* group, void* tensor, int root, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    auto tensors = one(tensor);
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group->gloo->broadcast(tensors, options)->wait();
    return true;
  });
}

bool shockwave_barrier(shockwave_group* group, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    group->gloo->barrier()->wait();
    return true;
  });
}
