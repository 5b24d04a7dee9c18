// Version of the library; the wire protocol has its own (src/wire/header.h).
#ifndef SYNCLINE_VERSION_H_
#define SYNCLINE_VERSION_H_

#define SYNCLINE_VERSION_MAJOR 0
#define SYNCLINE_VERSION_MINOR 1
#define SYNCLINE_VERSION_PATCH 0
#define SYNCLINE_VERSION_STRING "0.1.0"

#endif  // SYNCLINE_VERSION_H_
