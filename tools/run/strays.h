// Processes that ranks left behind.
#pragma once

namespace syncline::tools {

// From now on processes whose parent dies come to this one, if it is their nearest such ancestor.
void adopt_strays();

// Kills every child of this process, and what comes to it by that; blocks at most two seconds. Call
// it when no child is wanted any more.
void kill_strays();

}  // namespace syncline::tools
