// Autocast: operations that gain from it compute in half precision, on this thread, until it ends.

#include "shim.h"
#include "errors.h"

#include <ATen/autocast_mode.h>

namespace {

at::DeviceType device_type(bool cuda) {
  return cuda ? at::kCUDA : at::kCPU;
}

} // namespace

int shockwave_autocast_begin(bool cuda, bool fp16, char** error) {
  return shockwave::guard<int>(error, -1, [&]() {
    const auto device = device_type(cuda);
    const int before = (at::autocast::is_autocast_enabled(device) ? 1 : 0) +
        2 * static_cast<int>(at::autocast::get_autocast_dtype(device));
    at::autocast::set_autocast_dtype(device, fp16 ? at::kHalf : at::kBFloat16);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::increment_nesting();
    return before;
  });
}

bool shockwave_autocast_end(bool cuda, int before, char** error) {
  return shockwave::guard<bool>(error, false, [&]() {
    const auto device = device_type(cuda);
    // The copies of the weights in half precision are of no use after the next step.
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(device, before % 2 == 1);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(before / 2));
    return true;
  });
}
