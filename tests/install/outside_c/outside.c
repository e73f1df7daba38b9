// A user's program in C.
#include <stdio.h>
#include <tutti/tutti.h>

int main(void) {
  tutti_comm comm;
  int rank = -1, size = 0;
  if (tutti_init(NULL, &comm) != TUTTI_OK || tutti_rank(comm, &rank) != TUTTI_OK ||
      tutti_size(comm, &size) != TUTTI_OK) {
    fprintf(stderr, "%s\n", tutti_error_message());
    return 1;
  }
  float x[3] = {1, 2, (float)rank};
  if (tutti_all_reduce(comm, x, x, 3, TUTTI_FLOAT32, TUTTI_SUM, NULL) != TUTTI_OK) {
    fprintf(stderr, "%s\n", tutti_error_message());
    return 1;
  }
  if (x[0] != (float)size || x[2] != (float)(size * (size - 1) / 2)) return 2;
  printf("c: rank %d of %d, version %s\n", rank, size, tutti_version());
  return tutti_comm_free(&comm) == TUTTI_OK ? 0 : 1;
}
