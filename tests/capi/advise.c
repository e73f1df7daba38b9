// Which compression gradients had better travel in: alike on all ranks, as a table and as JSON, and what is refused.
#include "check.h"

enum { kRoom = 8192 };

static const int64_t kMatrix[] = {256, 256}, kVector[] = {256};
static const tutti_parameter kModel[] = {{"w", kMatrix, 2, TUTTI_FLOAT32}, {"b", kVector, 1, TUTTI_FLOAT32}};

static tutti_advise_settings usual(void) {
  tutti_advise_settings settings;
  OK(tutti_advise_default(&settings, sizeof settings));
  CHECK(settings.size == sizeof settings && settings.measure == -1 && settings.computing_us < 0);
  CHECK(settings.local_updates_count == 1 && settings.local_updates[0] == 50);
  settings.measure = 0;  // what is predicted is the same in every run
  return settings;
}

static void check_alike(const struct job* job, const char* text) {
  char* all = room((size_t)job->size * kRoom);
  OK(tutti_all_gather(job->comm, text, all, kRoom, TUTTI_UINT8, NULL));
  for (int rank = 0; rank < job->size; ++rank) CHECK(strcmp(all + (size_t)rank * kRoom, text) == 0);
  free(all);
}

static void check_told(const struct job* job) {
  tutti_advise_settings settings = usual();
  settings.computing_us = 1000;
  const int64_t every[] = {7, 70};
  settings.local_updates = every;
  settings.local_updates_count = 2;
  tutti_advice advice = NULL;
  OK(tutti_advise(job->comm, kModel, 2, &settings, &advice));
  char text[kRoom] = {0};
  size_t length = 0;
  OK(tutti_advice_told(advice, TUTTI_REPORT_TEXT, text, sizeof text, &length));
  CHECK(length == strlen(text));
  const char* parts[] = {"0.07 M numbers in 2 parameters, data parallel on",
                         "computing 1.000 ms a step",
                         "  none ",
                         "  int8 ",
                         "  power_sgd ",
                         "  one_bit ",
                         "  local 7 ",
                         "  local 70 "};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    char marked[64];  // what is recommended has a mark in front
    snprintf(marked, sizeof marked, ">%s", parts[i] + 1);
    CHECK(strstr(text, parts[i]) != NULL || strstr(text, marked) != NULL);
  }
  check_alike(job, text);

  const char* best = NULL;
  OK(tutti_advice_best(advice, &best));
  char recommended[64];
  snprintf(recommended, sizeof recommended, "recommended: %s: ", best);
  CHECK(strstr(text, recommended) != NULL);
  snprintf(recommended, sizeof recommended, "\"recommended\": \"%s\"", best);
  OK(tutti_advice_told(advice, TUTTI_REPORT_JSON, text, sizeof text, &length));
  CHECK(strstr(text, recommended) != NULL && strstr(text, "\"stage\": 0, \"parameters\": 2") != NULL);
  char little[8];
  OK(tutti_advice_told(advice, TUTTI_REPORT_TEXT, little, sizeof little, &length));
  CHECK(strcmp(little, "0.07 M ") == 0 && length > sizeof little);
  FAILS(tutti_advice_told(advice, (tutti_report_format)7, text, sizeof text, NULL), TUTTI_INVALID_ARGUMENT,
        "no format 7");
  FAILS(tutti_advice_told(advice, TUTTI_REPORT_TEXT, NULL, 9, NULL), TUTTI_INVALID_ARGUMENT, "text is NULL");
  FAILS(tutti_advice_best(advice, NULL), TUTTI_INVALID_ARGUMENT, "name is NULL");
  OK(tutti_advice_free(&advice));
  CHECK(advice == NULL);
  OK(tutti_advice_free(&advice));
}

// ZeRO cuts what 1-bit Adam needs, so that it is not among them.
static void check_stage(const struct job* job) {
  tutti_advise_settings settings = usual();
  settings.stage = 2;
  tutti_advice advice = NULL;
  OK(tutti_advise(job->comm, kModel, 2, &settings, &advice));
  char text[kRoom];
  OK(tutti_advice_told(advice, TUTTI_REPORT_TEXT, text, sizeof text, NULL));
  CHECK(strstr(text, "ZeRO stage 2 on") != NULL && strstr(text, "one_bit") == NULL);
  OK(tutti_advice_free(&advice));
}

static void check_refused(const struct job* job) {
  tutti_advise_settings settings = usual();
  tutti_advice advice = NULL;
  FAILS(tutti_advise_default(&settings, 8), TUTTI_INVALID_ARGUMENT, "sizeof(tutti_advise_settings)");
  FAILS(tutti_advise_default(NULL, sizeof settings), TUTTI_INVALID_ARGUMENT, "settings is NULL");
  FAILS(tutti_advise(job->comm, kModel, 2, &settings, NULL), TUTTI_INVALID_ARGUMENT, "advice is NULL");
  FAILS(tutti_advise(job->comm, NULL, 2, &settings, &advice), TUTTI_INVALID_ARGUMENT, "parameters is NULL");
  FAILS(tutti_advise(job->comm, kModel, 0, &settings, &advice), TUTTI_INVALID_ARGUMENT, "there are no parameters");
  tutti_parameter odd = kModel[0];
  odd.name = NULL;
  FAILS(tutti_advise(job->comm, &odd, 1, &settings, &advice), TUTTI_INVALID_ARGUMENT, "parameter 0: its name is NULL");
  odd = kModel[0];
  odd.type = TUTTI_INT32;
  FAILS(tutti_advise(job->comm, &odd, 1, &settings, &advice), TUTTI_INVALID_ARGUMENT, "only float32");
  const int64_t below[] = {2, -1};
  odd = kModel[0];
  odd.shape = below;
  FAILS(tutti_advise(job->comm, &odd, 1, &settings, &advice), TUTTI_INVALID_ARGUMENT, "no negative extents");
  odd.shape = NULL;
  FAILS(tutti_advise(job->comm, &odd, 1, &settings, &advice), TUTTI_INVALID_ARGUMENT, "its shape is NULL");
  settings.stage = 4;
  FAILS(tutti_advise(job->comm, kModel, 2, &settings, &advice), TUTTI_INVALID_ARGUMENT, "no stage 4 of ZeRO");
  settings = usual();
  settings.local_updates = NULL;
  FAILS(tutti_advise(job->comm, kModel, 2, &settings, &advice), TUTTI_INVALID_ARGUMENT, "local_updates is NULL");
  settings.size = 4;
  FAILS(tutti_advise(job->comm, kModel, 2, &settings, &advice), TUTTI_INVALID_ARGUMENT,
        "the size of the settings is 4");
  CHECK(advice == NULL);
}

int main(void) {
  struct job job = meet();
  check_told(&job);
  check_stage(&job);
  check_refused(&job);
  return leave(&job);
}
