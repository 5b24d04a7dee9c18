// Settings of a session: environment over code, each override logged once.
#pragma once

#include <memory>

#include "session/communicator_impl.h"
#include "session/flight.h"
#include "syncline/session.h"

namespace syncline::session {

// SYNCLINE_<NAME> replaces the field; bad values throw Error naming variable and value.
SessionOptions effective_options(const SessionOptions& code);

// The same for one field, "1" or "0".
void override_flag(const std::string& name, bool& field);

// Cores this process may run on.
int usable_cores();

// Engine and shared state of one process, a rank unless it has another name; the transport is still
// to be chosen.
std::shared_ptr<SessionContext> make_context(const SessionOptions& options, int number,
                                             std::string name = "");

// Before the engine starts: opens the rank's flight record.
void attach_flight(SessionContext& context, FlightLog::Place place,
                   const flight::Identity& identity);

// Sets transport, segment limit and costs; who shares a host is still to be set. Must be the same
// on all ranks of the job.
void choose_transport(SessionContext& context, const std::string& transport, int local_ranks,
                      std::size_t segment_bytes_max);

}  // namespace syncline::session
