// What was called between two marks, told as a table and as JSON.
#include "check.h"

int main(void) {
  struct job job = meet();
  tutti_mark begin, end;
  OK(tutti_take_mark(job.comm, &begin));
  float numbers[100] = {0};
  for (int step = 0; step < 2; ++step) {
    OK(tutti_all_reduce(job.comm, numbers, numbers, 100, TUTTI_FLOAT32, TUTTI_SUM, NULL));
    tutti_work work = NULL;
    OK(tutti_all_reduce(job.comm, numbers, numbers, 100, TUTTI_FLOAT32, TUTTI_SUM, &work));
    OK(tutti_wait(&work));
    OK(tutti_barrier(job.comm, NULL));
  }
  OK(tutti_take_mark(job.comm, &end));
  CHECK(end.ranks == job.size && end.at_ns > begin.at_ns && end.busy_ns > begin.busy_ns);
  CHECK(end.verbs[TUTTI_ALL_REDUCE].calls == begin.verbs[TUTTI_ALL_REDUCE].calls + 4);
  CHECK(end.verbs[TUTTI_BARRIER].under_way_ns > begin.verbs[TUTTI_BARRIER].under_way_ns);

  char text[4096];
  size_t length = 0;
  OK(tutti_report(&begin, &end, 2, TUTTI_REPORT_TEXT, text, sizeof text, &length));
  CHECK(length == strlen(text) && strstr(text, "after 2 steps\nevery step says\n  all_reduce") != NULL);
  CHECK(strstr(text, "400 B  x 2 ") != NULL && strstr(text, "exposed") != NULL);
  OK(tutti_report(&begin, &end, 2, TUTTI_REPORT_JSON, text, sizeof text, NULL));
  CHECK(strstr(text, "{\"verb\": \"all_reduce\", \"what\": \"calls\", \"bytes\": 400, \"times\": 2") != NULL);

  char little[8];
  OK(tutti_report(&begin, &end, 2, TUTTI_REPORT_TEXT, little, sizeof little, &length));
  CHECK(strcmp(little, "calls o") == 0 && length > sizeof little);
  OK(tutti_report(&begin, &end, 2, TUTTI_REPORT_TEXT, NULL, 0, &length));

  FAILS(tutti_take_mark(job.comm, NULL), TUTTI_INVALID_ARGUMENT, "mark is NULL");
  FAILS(tutti_report(NULL, &end, 1, TUTTI_REPORT_TEXT, text, sizeof text, NULL), TUTTI_INVALID_ARGUMENT,
        "from is NULL");
  FAILS(tutti_report(&begin, &end, 0, TUTTI_REPORT_TEXT, text, sizeof text, NULL), TUTTI_INVALID_ARGUMENT, "0 steps");
  FAILS(tutti_report(&begin, &end, 1, (tutti_report_format)7, text, sizeof text, NULL), TUTTI_INVALID_ARGUMENT,
        "no format 7");
  FAILS(tutti_report(&begin, &end, 1, TUTTI_REPORT_TEXT, NULL, 9, NULL), TUTTI_INVALID_ARGUMENT, "text is NULL");
  return leave(&job);
}
