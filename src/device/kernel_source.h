// The texts of kernels/cuda, as the build has put it into the library.
#pragma once

namespace tutti::device {

extern const char kReduceSource[], kCopySource[];

}  // namespace tutti::device
