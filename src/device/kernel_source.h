// The text of kernels/cuda/reduce.cu, as the build has put it into the library.
#pragma once

namespace tutti::device {

extern const char kReduceSource[];

}  // namespace tutti::device
