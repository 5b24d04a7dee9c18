#include "transport/shm/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace syncline::transport::shm {
namespace {

Status failed(Code code, const std::string& what) {
  return Status(code, "shared memory: " + what + ": " + std::strerror(errno));
}

Result<std::shared_ptr<void>> map_descriptor(int fd, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED)
    return failed(Code::kExhausted, "mapping " + std::to_string(bytes) + " bytes");
  return std::shared_ptr<void>(memory, [bytes](void* p) { ::munmap(p, bytes); });
}

}  // namespace

Result<Mapping> create(std::size_t bytes) {
  const int fd = ::memfd_create("syncline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return failed(Code::kExhausted, "memfd_create");
  const auto give_up = [fd](Status status) {
    ::close(fd);
    return status;
  };
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(fd, size) != 0 || ::fallocate(fd, 0, 0, size) != 0) {
    return give_up(failed(Code::kExhausted, "reserving " + std::to_string(bytes) + " bytes"));
  }
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return give_up(failed(Code::kInternal, "sealing"));
  }
  auto memory = map_descriptor(fd, bytes);
  if (!memory.ok()) return give_up(memory.status());
  return Mapping{fd, std::move(memory).value()};
}

Result<std::shared_ptr<void>> map(int fd, std::size_t bytes) {
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (::fstat(fd, &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      static_cast<std::size_t>(info.st_size) != bytes) {
    return Status(Code::kCorrupt,
                  "shared memory: the peer's descriptor has another size or no seals");
  }
  return map_descriptor(fd, bytes);
}

}  // namespace syncline::transport::shm
