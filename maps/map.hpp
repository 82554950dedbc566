// SPDX-License-Identifier: Apache-2.0
// Typed views of the hash maps behind a file descriptor: get, put, erase, for_each. Errors are errno values
// of boost::system::generic_category: ENOENT, EEXIST, E2BIG (full), ENOMEM, EBUSY, EPERM; see bpf(2).
#pragma once

#include <linux/bpf.h>

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

namespace lb::maps {

using boost::system::error_code;
using boost::system::result;

/// Owns a file descriptor; -1: none.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The kernel's information about a map; sizes in bytes.
struct MapInfo {
  std::uint32_t id = 0;
  bpf_map_type type = BPF_MAP_TYPE_UNSPEC;
  std::uint32_t key_size = 0;
  std::uint32_t value_size = 0;
  std::uint32_t max_entries = 0;
  std::uint32_t flags = 0;
  std::string name;
};

[[nodiscard]] result<MapInfo> map_info(int fd);

enum class Put : std::uint8_t { any = BPF_ANY, create = BPF_NOEXIST, replace = BPF_EXIST };

/// How for_each walks a map: by whole buckets, or key by key if the kernel does not support that.
enum class Walk : std::uint8_t { batch, keys };

namespace raw {

using Visit = std::function<void(const void* key, const void* value)>;
[[nodiscard]] error_code get(int fd, const void* key, void* value);
[[nodiscard]] error_code put(int fd, const void* key, const void* value, Put mode);
[[nodiscard]] error_code erase(int fd, const void* key);
[[nodiscard]] error_code walk(int fd, const MapInfo& info, Walk how, const Visit& visit);

/// The position of a walk in steps.
struct Cursor {
  std::uint64_t bucket = 0;
  bool started = false;
  bool finished = false;
};
/// Continues by about `count` entries, and sets `finished` after the last one.
[[nodiscard]] error_code step(int fd, const MapInfo& info, Cursor& cursor, std::uint32_t count,
                              const Visit& visit);

}  // namespace raw

/// A key-value table: a map of the kernel, or a test double.
template <class Key, class Value>
class Table {
 public:
  virtual ~Table() = default;
  /// ENOENT if the key is absent.
  [[nodiscard]] virtual result<Value> get(const Key& key) const = 0;
  [[nodiscard]] virtual error_code put(const Key& key, const Value& value, Put mode) = 0;
  /// Erasing an absent key is a success (REL-82).
  [[nodiscard]] virtual error_code erase(const Key& key) = 0;
  /// Visits every entry that exists from begin to end of the call, once; others may or may not be visited
  /// (REL-74). The visitor may erase. An error means that not all were visited.
  [[nodiscard]] virtual error_code for_each(
      const std::function<void(const Key&, const Value&)>& visit) const = 0;
  [[nodiscard]] virtual std::uint32_t limit() const noexcept = 0;
};

/// A HASH, LRU HASH or LPM TRIE of the kernel.
template <class Key, class Value>
class HashMap final : public Table<Key, Value> {
 public:
  HashMap() = default;
  /// EMSGSIZE if the map's sizes differ from those of the types.
  [[nodiscard]] static result<HashMap> open(Fd fd) {
    auto info = map_info(fd.get());
    if (!info) {
      return info.error();
    }
    if (info->key_size != sizeof(Key) || info->value_size != sizeof(Value)) {
      return make_error_code(boost::system::errc::message_size);
    }
    return HashMap(std::move(fd), std::move(*info));
  }

  [[nodiscard]] result<Value> get(const Key& key) const override {
    Value value{};
    if (auto error = raw::get(fd_.get(), &key, &value)) {
      return error;
    }
    return value;
  }
  [[nodiscard]] error_code put(const Key& key, const Value& value, Put mode) override {
    return raw::put(fd_.get(), &key, &value, mode);
  }
  [[nodiscard]] error_code erase(const Key& key) override { return raw::erase(fd_.get(), &key); }
  [[nodiscard]] error_code for_each(
      const std::function<void(const Key&, const Value&)>& visit) const override {
    return walk(Walk::batch, visit);
  }
  [[nodiscard]] std::uint32_t limit() const noexcept override { return info_.max_entries; }

  [[nodiscard]] error_code walk(Walk how, const std::function<void(const Key&, const Value&)>& visit) const {
    return raw::walk(fd_.get(), info_, how, typed(visit));
  }
  /// A walk in bounded steps, for tables too large for one turn of the event loop. EINVAL for an LPM TRIE.
  [[nodiscard]] error_code step(raw::Cursor& cursor, std::uint32_t count,
                                const std::function<void(const Key&, const Value&)>& visit) const {
    return raw::step(fd_.get(), info_, cursor, count, typed(visit));
  }
  [[nodiscard]] const MapInfo& info() const noexcept { return info_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  HashMap(Fd fd, MapInfo info) : fd_(std::move(fd)), info_(std::move(info)) {}

  static raw::Visit typed(const std::function<void(const Key&, const Value&)>& visit) {
    return [&visit](const void* key_bytes, const void* value_bytes) {
      Key key;
      Value value;
      std::memcpy(&key, key_bytes, sizeof(key));
      std::memcpy(&value, value_bytes, sizeof(value));
      visit(key, value);
    };
  }

  Fd fd_;
  MapInfo info_;
};

}  // namespace lb::maps
