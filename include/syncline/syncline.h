// Everything of the core: sessions, communicators, works. The torch layer is <syncline/torch/...>.
#ifndef SYNCLINE_SYNCLINE_H_
#define SYNCLINE_SYNCLINE_H_

#include "syncline/batch.h"
#include "syncline/communicator.h"
#include "syncline/kvstore.h"
#include "syncline/optim.h"
#include "syncline/server.h"
#include "syncline/session.h"
#include "syncline/status.h"
#include "syncline/tensor_view.h"
#include "syncline/types.h"
#include "syncline/version.h"
#include "syncline/work.h"

#endif  // SYNCLINE_SYNCLINE_H_
