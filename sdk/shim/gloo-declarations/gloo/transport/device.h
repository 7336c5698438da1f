// Stand-in for gloo's network device: handled by pointer only.
#pragma once

#include <memory>

namespace gloo::transport {

class Device;

} // namespace gloo::transport
