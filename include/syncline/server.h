// A server of a job: a process beside the ranks that keeps a part of their key-value stores.
#ifndef SYNCLINE_SERVER_H_
#define SYNCLINE_SERVER_H_

#include "syncline/session.h"

namespace syncline {

// Runs a server of this job until all workers have left, in order or by their death. Which one is
// said by SYNCLINE_SERVER_ID and SYNCLINE_SERVERS, and the job by the variables that its ranks get
// too; `syncline serve` is a program that does nothing else. Blocks; throws Error when the job does
// not come about within connect_timeout. Once it has, SIGTERM and SIGUSR1 no longer end a process
// that left them at their default: its workers decide.
void serve(const SessionOptions& options = {});

}  // namespace syncline

#endif  // SYNCLINE_SERVER_H_
