#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "tools/doctor/checks.h"

namespace syncline::tools {
namespace {

// First of the usual places that has `header`, or "".
std::string find_header(const std::string& header) {
  const std::string home = env("CUDA_HOME").value_or("/usr/local/cuda");
  for (const std::string& folder :
       {home + "/include", std::string("/usr/include"),
        std::string("/usr/include/x86_64-linux-gnu"), std::string("/usr/local/include")}) {
    std::error_code error;
    const std::string path = folder + "/" + header;
    if (std::filesystem::exists(path, error)) return path;
  }
  return "";
}

// "2.28.3" from three macros; "" without the header.
std::string version_of(const std::string& header, const std::string& prefix, const char* patch) {
  const std::string path = find_header(header);
  const std::string major = defined_in(path, prefix + "_MAJOR");
  if (path.empty() || major.empty()) return "";
  return fmt::format("{}.{}.{}", major, defined_in(path, prefix + "_MINOR"),
                     defined_in(path, prefix + patch));
}

// CUDA counts 13000 as 13.0.
std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// The newest CUDA that the driver runs, 0 without a driver.
int driver_cuda_version() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return 0;
  using DriverVersion = int (*)(int*);
  const auto ask = reinterpret_cast<DriverVersion>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (ask != nullptr && ask(&version) != 0) version = 0;
  dlclose(library);
  return version;
}

void check_libtorch(Findings& findings, int driver) {
  const std::string version =
      version_of("torch/csrc/api/include/torch/version.h", "TORCH_VERSION", "_PATCH");
  if (version.empty()) {
    findings.push_back({Level::kWarn, "libtorch", "not found: the core works, training does not",
                        "apt-get install libtorch-dev"});
    return;
  }
  bool cuda = false;
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/libtorch_cuda.so", "/usr/lib/libtorch_cuda.so"}) {
    std::error_code error;
    cuda = cuda || std::filesystem::exists(path, error);
  }
  const char* const note =
      cuda || driver == 0 ? "" : ": a GPU is here, but this build trains on the CPU only";
  findings.push_back({*note == '\0' ? Level::kOk : Level::kWarn, "libtorch",
                      fmt::format("{}, {} build{}", version, cuda ? "CUDA" : "CPU", note),
                      *note == '\0' ? "" : "cmake -DCMAKE_PREFIX_PATH=<a CUDA build of LibTorch>"});
}

}  // namespace

void check_gpu(Findings& findings) {
  const int driver = driver_cuda_version();
  std::string module;
  std::ifstream file("/proc/driver/nvidia/version");
  std::getline(file, module);
  const std::string toolkit_header = find_header("cuda.h");
  const std::string toolkit_text = defined_in(toolkit_header, "CUDA_VERSION");
  int toolkit = 0;  // stays so where there is none
  std::from_chars(toolkit_text.data(), toolkit_text.data() + toolkit_text.size(), toolkit);
  const std::string cudnn = version_of("cudnn_version.h", "CUDNN", "_PATCHLEVEL");
  const std::string nccl = version_of("nccl.h", "NCCL", "_PATCH");
  check_libtorch(findings, driver);
  if (driver > 0) {
    findings.push_back({Level::kOk, "nvidia driver",
                        fmt::format("runs CUDA up to {}; {}", cuda_text(driver), module), ""});
  } else if (!module.empty()) {
    findings.push_back({Level::kWarn, "nvidia driver",
                        "the kernel module is loaded, but libcuda.so.1 does not answer",
                        "apt-get install libcuda1"});
  } else {
    findings.push_back({Level::kInfo, "nvidia driver", "none", ""});
  }
  if (toolkit == 0) {
    findings.push_back({Level::kInfo, "cuda", "no toolkit; Syncline trains on CPUs", ""});
  } else if (driver == 0) {
    findings.push_back(
        {Level::kInfo, "cuda",
         fmt::format("{}: GPU code compiles, cannot run here: no driver", cuda_text(toolkit)), ""});
  } else if (driver / 1000 < toolkit / 1000) {
    findings.push_back(
        {Level::kWarn, "cuda",
         fmt::format(
             "toolkit {} is newer than the driver's {}: programs built with it fail to start",
             cuda_text(toolkit), cuda_text(driver)),
         "apt-get install nvidia-driver"});
  } else {
    findings.push_back(
        {Level::kOk, "cuda",
         fmt::format("toolkit {}, driver for {}", cuda_text(toolkit), cuda_text(driver)), ""});
  }
  findings.push_back({Level::kInfo, "cudnn", cudnn.empty() ? "none" : cudnn, ""});
  findings.push_back({Level::kInfo, "nccl", nccl.empty() ? "none" : nccl, ""});
}

}  // namespace syncline::tools
