// Process groups over libtorch's own c10d: a TCP store for the rendezvous, gloo for the collectives
// and, where it was asked for, NCCL for those of tensors on GPUs.

#include "shim.h"
#include "gpu.h"
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
  // Null without NCCL.
  c10::intrusive_ptr<c10d::Backend> nccl;
  std::chrono::milliseconds timeout;
  // Whether NCCL's communicator has yet to be made, by the first call.
  bool first = true;
  // A communicator is of no use after a call that failed.
  bool broken = false;

  ~shockwave_group() {
    if (!nccl) {
      return;
    }
    try {
      // Every call was waited for. To take leave properly might wait for workers that are gone.
      if (!broken) {
        nccl->abort();
      }
    } catch (...) {
      // Nobody is left to hear of it.
    }
    if (broken) {
      // A thread may be waiting in it for ever: it is left to the end of the process.
      nccl.release();
    }
  }
};

namespace {

// Calls the one of the two that the tensor belongs to, and waits.
void run(shockwave_group* group, const at::Tensor& tensor, const shockwave::Start& start) {
  if (!group->nccl || !tensor.is_cuda()) {
    start(*group->gloo)->wait();
    return;
  }
  TORCH_CHECK(!group->broken, "an earlier call of this group has failed");
  group->broken = true;
  shockwave::run_nccl(group->nccl, start, group->first, group->timeout);
  group->broken = false;
  group->first = false;
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
    bool nccl,
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
    c10::intrusive_ptr<c10d::Backend> on_gpus;
    if (nccl) {
      auto own = c10::make_intrusive<c10d::PrefixStore>("nccl", store);
      on_gpus = shockwave::make_nccl(own, rank, size, timeout);
    }
    return new shockwave_group{store, gloo, on_gpus, timeout};
  });
}

void shockwave_group_free(shockwave_group* group) {
  delete group;
}

bool shockwave_all_reduce(shockwave_group* group, void* tensor, bool maximum, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    c10d::AllreduceOptions options;
    options.reduceOp = maximum ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    // By value: a thread may outlive this call.
    std::vector<at::Tensor> tensors = {*static_cast<at::Tensor*>(tensor)};
    run(group, tensors[0], [tensors, options](c10d::Backend& backend) mutable {
      return backend.allreduce(tensors, options);
    });
    return true;
  });
}

bool shockwave_broadcast(shockwave_group* group, void* tensor, int root, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors = {*static_cast<at::Tensor*>(tensor)};
    run(group, tensors[0], [tensors, options](c10d::Backend& backend) mutable {
      return backend.broadcast(tensors, options);
    });
    return true;
  });
}

bool shockwave_barrier(shockwave_group* group, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    group->gloo->barrier()->wait();
    return true;
  });
}
