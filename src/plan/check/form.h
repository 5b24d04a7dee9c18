// First pass of the checker: each step by itself.
#pragma once

#include "plan/check/program.h"

namespace syncline::plan {

// Roles, counts and sizes.
Status check_head(const Schedule& s);
// Ranges, buffers, wire type and finish of one step.
Status check_form(const Schedule& s, const FlatStep& at);

}  // namespace syncline::plan
