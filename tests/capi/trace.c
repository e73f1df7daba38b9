// A trace of a part of the program: it becomes a file with the calls and the spans that were made meanwhile.
#include "check.h"

static int count(const char* text, const char* part) {
  int found = 0;
  for (const char* at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) ++found;
  return found;
}

static void make_calls(const struct job* job) {
  float numbers[100] = {0};
  OK(tutti_span_begin("outer"));
  OK(tutti_span_begin("inner"));
  OK(tutti_all_reduce(job->comm, numbers, numbers, 100, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  OK(tutti_span_end());
  tutti_work work = NULL;
  OK(tutti_all_reduce(job->comm, numbers, numbers, 100, TUTTI_FLOAT32, TUTTI_SUM, &work));
  tutti_trace_wait wait;
  OK(tutti_trace_wait_begin(&wait));
  OK(tutti_wait(&work));
  OK(tutti_trace_wait_end(&wait));
  OK(tutti_span_end());
}

int main(void) {
  struct job job = meet();
  // All ranks the same, by the number of rank 0's process.
  int number = 0;
  if (job.rank == 0) number = rand() ^ (int)(size_t)&number;
  OK(tutti_broadcast(job.comm, &number, &number, 1, TUTTI_INT32, 0, NULL));
  char file[64];
  snprintf(file, sizeof file, "/tmp/tutti-capi-trace-%x-%d.json", (unsigned)number, job.size);

  const char* where = NULL;
  make_calls(&job);
  OK(tutti_trace_stop(job.comm));
  OK(tutti_trace_where(job.comm, &where));
  CHECK(strcmp(where, "") == 0);
  OK(tutti_trace_start(job.comm, file, 1000));
  OK(tutti_trace_where(job.comm, &where));
  CHECK(strcmp(where, file) == 0);
  FAILS(tutti_trace_start(job.comm, file, 0), TUTTI_INVALID_ARGUMENT, "recorded to");
  make_calls(&job);
  OK(tutti_trace_stop(job.comm));
  make_calls(&job);

  FILE* stream = fopen(file, "r");
  CHECK(stream != NULL);
  char* text = room(1 << 20);
  const size_t length = fread(text, 1, (1 << 20) - 1, stream);
  text[length] = 0;
  fclose(stream);
  CHECK(count(text, "\"cat\":\"call\",\"name\":\"all_reduce\"") == 2 * job.size);
  CHECK(count(text, "\"cat\":\"span\",\"name\":\"outer\"") == job.size);
  CHECK(count(text, "\"cat\":\"span\",\"name\":\"inner\"") == job.size);
  CHECK(count(text, "\"args\":{\"on\":\"work\"}") == job.size);
  free(text);
  OK(tutti_barrier(job.comm, NULL));
  if (job.rank == 0) remove(file);

  for (int depth = 0; depth < 100; ++depth) OK(tutti_span_begin("deep"));
  for (int depth = 0; depth < 100; ++depth) OK(tutti_span_end());
  FAILS(tutti_span_end(), TUTTI_INVALID_ARGUMENT, "has begun no span");
  FAILS(tutti_span_begin(NULL), TUTTI_INVALID_ARGUMENT, "name is NULL");
  FAILS(tutti_trace_wait_begin(NULL), TUTTI_INVALID_ARGUMENT, "wait is NULL");
  FAILS(tutti_trace_wait_end(NULL), TUTTI_INVALID_ARGUMENT, "wait is NULL");
  FAILS(tutti_trace_start(job.comm, "", 0), TUTTI_INVALID_ARGUMENT, "file is empty");
  FAILS(tutti_trace_where(job.comm, NULL), TUTTI_INVALID_ARGUMENT, "file is NULL");
  return leave(&job);
}
