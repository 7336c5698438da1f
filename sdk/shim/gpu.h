// What only a libtorch with CUDA has: `gpu.cpp` where it is, `no_gpu.cpp` elsewhere.
#pragma once

#include <chrono>
#include <functional>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace shockwave {

// The NCCL side of a group. Throws where CUDA is not built in, or there is no GPU.
c10::intrusive_ptr<c10d::Backend> make_nccl(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    std::chrono::milliseconds timeout);

using Start = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;

// Starts a call of NCCL and waits for its result. Throws when a worker is gone or does not come in
// time; the communicator is of no use any more then. `first`: it has yet to be made.
void run_nccl(
    const c10::intrusive_ptr<c10d::Backend>& nccl,
    const Start& start,
    bool first,
    std::chrono::milliseconds timeout);

} // namespace shockwave
