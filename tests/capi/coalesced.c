// Several tensors in one operation: the bits of one all_reduce each.
#include "check.h"

int main(void) {
  struct job job = meet();
  static const size_t counts[] = {3, 0, 1, 5000, 17};
  enum { kTensors = 5 };
  float* tensors[kTensors];
  float* expected[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    tensors[t] = room(counts[t] * sizeof(float));
    expected[t] = room(counts[t] * sizeof(float));
    for (size_t i = 0; i < counts[t]; ++i) tensors[t][i] = 1.0F / (float)(1 + i + (size_t)(t + 7 * job.rank));
    OK(tutti_all_reduce(job.comm, tensors[t], expected[t], counts[t], TUTTI_FLOAT32, TUTTI_AVERAGE, NULL));
  }
  OK(tutti_all_reduce_coalesced(job.comm, (void* const*)tensors, counts, kTensors, TUTTI_FLOAT32, TUTTI_AVERAGE));
  for (int t = 0; t < kTensors; ++t) {
    CHECK(memcmp(tensors[t], expected[t], counts[t] * sizeof(float)) == 0);
    free(tensors[t]);
    free(expected[t]);
  }
  OK(tutti_all_reduce_coalesced(job.comm, NULL, NULL, 0, TUTTI_FLOAT32, TUTTI_SUM));
  void* nothing[] = {NULL};
  FAILS(tutti_all_reduce_coalesced(job.comm, nothing, counts, 1, TUTTI_FLOAT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT,
        "a tensor of 3 elements is null");
  return leave(&job);
}
