// NCCL over libtorch's own c10d, and libtorch's count of what waits for the device. Built only where
// libtorch has CUDA.

#include "gpu.h"
#include "shim.h"

#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace {

// After this many looks at once, `wait` sleeps between two: a step's sum takes milliseconds.
constexpr int LOOKS = 1000;
constexpr std::chrono::microseconds PAUSE(50);

// Unless the user has set it.
void set_default(const char* name, const char* value) {
  if (!c10::utils::has_env(name)) {
    c10::utils::set_env(name, value, /*overwrite=*/false);
  }
}

// Counts libtorch's warnings of calls that wait for the device; others are shown as ever.
class SyncCounter : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("synchronizing CUDA operation") == std::string::npos) {
      c10::WarningHandler::process(warning);
    } else {
      ++count;
    }
  }
  std::atomic<int64_t> count{0};
};

SyncCounter& counter() {
  static SyncCounter only;
  return only;
}

// The first call makes the communicator, and NCCL waits there for the other workers without end: a
// thread of its own does, and is left behind when they do not come.
c10::intrusive_ptr<c10d::Work> connect(
    const c10::intrusive_ptr<c10d::Backend>& nccl,
    const shockwave::Start& start,
    std::chrono::milliseconds timeout) {
  using Task = std::packaged_task<c10::intrusive_ptr<c10d::Work>()>;
  auto task = std::make_shared<Task>([nccl, start]() { return start(*nccl); });
  auto started = task->get_future();
  std::thread([task]() { (*task)(); }).detach();
  TORCH_CHECK(
      started.wait_for(timeout) == std::future_status::ready,
      "the other workers did not come within ",
      timeout.count(),
      " ms");
  return started.get();
}

// Not c10d's own blocking wait: it sleeps for milliseconds between two looks.
void wait(c10d::Backend& nccl, c10d::Work& work, std::chrono::milliseconds timeout) {
  const auto give_up_at = std::chrono::steady_clock::now() + timeout;
  for (int looks = 0; !work.isCompleted(); ++looks) {
    if (std::chrono::steady_clock::now() >= give_up_at) {
      // Its kernel would wait on the device for ever, and all that is queued behind it too.
      nccl.abort();
      TORCH_CHECK(false, "no answer from the other workers within ", timeout.count(), " ms");
    }
    if (looks < LOOKS) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(PAUSE);
    }
  }
  if (const auto failure = work.exception()) {
    nccl.abort();
    std::rethrow_exception(failure);
  }
  // What comes next on this thread's stream sees the result.
  work.synchronize();
}

} // namespace

namespace shockwave {

c10::intrusive_ptr<c10d::Backend> make_nccl(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    std::chrono::milliseconds timeout) {
  TORCH_CHECK(c10::cuda::device_count() > 0, "NCCL sums on GPUs, and libtorch finds none");
  // c10d's watchdog would end the whole process when a worker does not come. Here it is an error of
  // the call that waits (`wait`): the program may say so, and be started again.
  set_default("TORCH_NCCL_BLOCKING_WAIT", "1");
  set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0");
  set_default("TORCH_NCCL_ENABLE_MONITORING", "0");
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

void run_nccl(
    const c10::intrusive_ptr<c10d::Backend>& nccl,
    const Start& start,
    bool first,
    std::chrono::milliseconds timeout) {
  const auto work = first ? connect(nccl, start, timeout) : start(*nccl);
  wait(*nccl, *work, timeout);
}

} // namespace shockwave

void shockwave_count_syncs() {
  counter().count = 0;
  c10::WarningUtils::set_warning_handler(&counter());
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
}

int64_t shockwave_counted_syncs() {
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  c10::WarningUtils::set_warning_handler(nullptr);
  return counter().count;
}
