// SPDX-License-Identifier: Apache-2.0
// The helper thread and its map.
#include "maps/grace.hpp"

#include <bpf/bpf.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

namespace lb::maps {

namespace {

constexpr auto retry_pause = std::chrono::milliseconds(100);

result<Fd> make(bpf_map_type type, const char* name, const bpf_map_create_opts* options) {
  const int fd = bpf_map_create(type, name, sizeof(std::uint32_t), sizeof(std::uint32_t), 1, options);
  if (fd < 0) {
    return error_code{errno, boost::system::generic_category()};
  }
  return Fd(fd);
}

/// Blocks signals in the helper: they are for the agent's own thread.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

result<std::unique_ptr<KernelGrace>> KernelGrace::open(Post post) {
  auto inner = make(BPF_MAP_TYPE_ARRAY, "lb_grace_in", nullptr);
  if (!inner) {
    return inner.error();
  }
  bpf_map_create_opts options{};
  options.sz = sizeof(options);
  options.inner_map_fd = static_cast<__u32>(inner->get());
  auto outer = make(BPF_MAP_TYPE_ARRAY_OF_MAPS, "lb_grace", &options);
  if (!outer) {
    return outer.error();
  }
  return std::unique_ptr<KernelGrace>(new KernelGrace(std::move(*inner), std::move(*outer), std::move(post)));
}

KernelGrace::KernelGrace(Fd inner, Fd outer, Post post)
    : inner_(std::move(inner)), outer_(std::move(outer)), post_(std::move(post)) {
  const BlockedSignals blocked;
  helper_ = std::jthread([this](const std::stop_token& stop) { help(stop); });
}

KernelGrace::~KernelGrace() {
  helper_.request_stop();
  helper_.join();
}

void KernelGrace::after(std::function<void()> done) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(done));
  }
  wake_.notify_one();
}

void KernelGrace::help(const std::stop_token& stop) {
  for (;;) {
    std::vector<std::function<void()>> batch;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, stop, [this] { return !waiting_.empty(); });
      if (stop.stop_requested()) {
        return;
      }
      batch.swap(waiting_);
    }
    while (!wait_once(stop)) {
      if (stop.stop_requested()) {
        return;
      }
      std::this_thread::sleep_for(retry_pause);
    }
    for (auto& done : batch) {
      post_(std::move(done));
    }
  }
}

bool KernelGrace::wait_once(const std::stop_token& stop) const {
  const std::uint32_t slot = 0;
  const int inner = inner_.get();
  return !stop.stop_requested() && bpf_map_update_elem(outer_.get(), &slot, &inner, BPF_ANY) == 0;
}

}  // namespace lb::maps
