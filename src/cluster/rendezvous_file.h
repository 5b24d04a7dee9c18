// The file by which file:/dir rendezvous tell where rank 0 listens.
//
// Name: syncline-<run id>.rendezvous, run id "default" when there is none, other characters than
// letters, digits, '-', '_' and '.' replaced by '_'. Text, one "key value" per line, see
// docs/formats/rendezvous.md. Written whole to a temporary file and renamed. A file is only a hint:
// a killed job leaves one behind, so whoever reads it must prove the address by the handshake.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/tcp/socket.h"

namespace syncline::cluster {

struct RendezvousFile {
  std::string run_id;
  std::uint64_t incarnation = 0;  // of rank 0
  std::string address;            // "ip:port"
  int pid = 0;
  std::string host_name;
  std::string host_id;

  bool operator==(const RendezvousFile&) const = default;
};

std::string rendezvous_file_path(const std::string& folder, const std::string& run_id);

std::string format(const RendezvousFile& file);
// nullopt for anything that is not exactly such a text.
std::optional<RendezvousFile> parse_rendezvous_file(const std::string& text);

// nullopt when there is none, or none that parses: look again later.
std::optional<RendezvousFile> read_rendezvous_file(const std::string& path);

// Creates the folder (0700) if it is missing. Others may write to it: they can disturb, but not
// join.
Status prepare_rendezvous_folder(const std::string& folder);

// Puts `file` in place. kFailedPrecondition, with the owner's pid, while another rank 0 of the same
// run id lives: its process is there (same host) and its address accepts a connection. The folder
// is locked meanwhile, so that of two at once one is refused. Blocks up to a second.
Status publish_rendezvous_file(const std::string& path, const RendezvousFile& file);

// Removes the file if it still is this one.
void withdraw_rendezvous_file(const std::string& path, const RendezvousFile& file);

}  // namespace syncline::cluster
