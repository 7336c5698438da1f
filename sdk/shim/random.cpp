// Generator states and determinism flags.

#include "shim.h"
#include "errors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

namespace {

at::Generator generator(int cuda) {
  if (cuda < 0) {
    return at::detail::getDefaultCPUGenerator();
  }
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(cuda));
  return at::globalContext().defaultGenerator(device);
}

} // namespace

void* shockwave_generator_state(int cuda, char** error) {
  return shockwave::guard<void*>(error, nullptr, [&]() -> void* {
    auto source = generator(cuda);
    std::lock_guard<std::mutex> lock(source.mutex());
    return new at::Tensor(source.get_state());
  });
}

bool shockwave_set_generator_state(int cuda, void* state, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    auto target = generator(cuda);
    std::lock_guard<std::mutex> lock(target.mutex());
    target.set_state(*static_cast<at::Tensor*>(state));
    return true;
  });
}

bool shockwave_set_deterministic(bool on, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    auto& context = at::globalContext();
    context.setDeterministicAlgorithms(on, /*warn_only=*/false);
    context.setDeterministicCuDNN(on);
    if (on) {
      context.setBenchmarkCuDNN(false);
    }
    return true;
  });
}

void shockwave_error_free(char* error) {
  std::free(error);
}
