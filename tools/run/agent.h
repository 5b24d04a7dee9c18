// The agent: runs the ranks of one host for the launcher (`syncline run --agent`, not for users).
//
// The launcher starts one per host, on its own host directly and elsewhere through ssh, and speaks
// to it over stdin and stdout (tools/run/message.h). When stdin ends before the job does, the
// launcher or the connection is gone: the agent kills its ranks and leaves. Ranks die with their
// agent.
#pragma once

namespace syncline::tools {

// Blocks until every process of the job on this host is gone. Returns the exit code of the agent.
int run_agent();

}  // namespace syncline::tools
