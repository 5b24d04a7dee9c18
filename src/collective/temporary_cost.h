#pragma once
namespace syncline::plan { struct CostParams { int ranks = 1; }; }
