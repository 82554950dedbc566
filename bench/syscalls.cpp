// SPDX-License-Identifier: Apache-2.0
// Counts the system calls of all processes in a cgroup, at the cost of one comparison for every system call
// of the machine: unlike a tracer, cheap enough to be on while times are measured. The program and its maps
// are pinned, so that it counts from before a process starts.
//
// usage: bench_syscalls begin CGROUP DIRECTORY     DIRECTORY on a BPF file system; remove it to stop
//        bench_syscalls read DIRECTORY
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/tool.hpp"
#include "maps/map.hpp"

namespace lb::bench::skeleton {
#include "bpf/syscalls.skel.h"
}

namespace lb::bench {
namespace {

using Program = std::unique_ptr<skeleton::syscalls, decltype(&skeleton::syscalls__destroy)>;

void demand(bool met, const std::string& what) {
  if (!met) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
  }
}

/// A cgroup's id is the inode number of its directory.
std::uint64_t cgroup_id(const char* path) {
  struct stat found{};
  demand(::stat(path, &found) == 0, path);
  return found.st_ino;
}

void begin(char** words) {
  const std::string directory = words[1];
  const Program program(skeleton::syscalls__open(), skeleton::syscalls__destroy);
  demand(program != nullptr, "the program does not open");
  program->rodata->lb_cgroup = cgroup_id(words[0]);
  demand(skeleton::syscalls__load(program.get()) == 0, "the kernel refuses the program");
  std::filesystem::create_directory(directory);
  auto* link = bpf_program__attach(program->progs.count_call);
  demand(link != nullptr && bpf_link__pin(link, (directory + "/link").c_str()) == 0, "attaching");
  demand(bpf_map__pin(program->maps.calls, (directory + "/calls").c_str()) == 0, "pinning");
  bpf_link__disconnect(link);
  bpf_link__destroy(link);
}

void read(char** words) {
  const std::string directory = words[0];
  const maps::Fd map(bpf_obj_get((directory + "/calls").c_str()));
  demand(static_cast<bool>(map), directory);
  const std::uint32_t first = 0;
  std::uint64_t count = 0;
  demand(bpf_map_lookup_elem(map.get(), &first, &count) == 0, "reading");
  fmt::print("{}\n", count);
}

const Commands commands = {{"begin", {begin, 2}}, {"read", {read, 1}}};

}  // namespace
}  // namespace lb::bench

int main(int count, char** words) {
  return lb::bench::run_tool("bench_syscalls", lb::bench::commands,
                             "usage: bench_syscalls begin CGROUP DIRECTORY | read DIRECTORY", count, words);
}
