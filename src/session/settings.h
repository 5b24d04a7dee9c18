// Settings of a session: environment over code, each override logged once.
#pragma once

#include <memory>

#include "session/communicator_impl.h"
#include "syncline/session.h"

namespace syncline::session {

// SYNCLINE_<NAME> replaces the field; bad values throw Error naming variable and value.
SessionOptions effective_options(const SessionOptions& code);

// Engine and shared state of one rank; transport and segment size are still to be set.
std::shared_ptr<SessionContext> make_context(const SessionOptions& options, int rank,
                                             int world_size, int local_ranks);

}  // namespace syncline::session
