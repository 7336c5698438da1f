// Stand-in for gloo's store: the base class of an adapter that ProcessGroupGloo.hpp defines and that
// only libtorch itself instantiates. The virtual functions are those that the adapter overrides.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gloo::rendezvous {

class Store {
 public:
  using Bytes = std::vector<char>;

  virtual ~Store();
  virtual void set(const std::string& key, const Bytes& value) = 0;
  virtual Bytes get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) = 0;
  virtual bool has_v2_support();
  virtual std::vector<Bytes> multi_get(const std::vector<std::string>& keys) = 0;
  virtual void multi_set(
      const std::vector<std::string>& keys,
      const std::vector<Bytes>& values) = 0;
  virtual void append(const std::string& key, const Bytes& value) = 0;
  virtual int64_t add(const std::string& key, int64_t value) = 0;
};

} // namespace gloo::rendezvous
