// Schedules of pipelines: proven for many shapes, their bubbles by formula, and mutants that the verifier finds.
#include "strategy/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "effort.h"
#include "strategy/pipeline_play.h"
#include "strategy/pipeline_text.h"
#include "strategy/pipeline_verify.h"
#include "tutti/error.h"

namespace tutti::strategy {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using train::PipelineSchedule;
using Kind = PipelineProblem::Kind;
using Programs = std::vector<PipelineProgram>;

constexpr int kMostStages = 16, kMostMicrobatches = 64, kMostChunks = 4;
constexpr int kStride = tutti::testing::kSanitized ? 7 : 1;  // of micro-batches

std::string text_of(const PipelineShape& shape) {
  return std::string(name_of(shape.schedule)) + ", " + std::to_string(shape.stages) + " stages, " +
         std::to_string(shape.microbatches) + " micro-batches, " + std::to_string(shape.chunks) + " chunks";
}

void for_all_shapes(const std::function<void(const PipelineShape&)>& check) {
  for (std::size_t which = 0; which < train::kPipelineSchedules; ++which) {
    const auto schedule = static_cast<PipelineSchedule>(which);
    const bool interleaves = schedule == PipelineSchedule::interleaved;
    for (int chunks = 1; chunks <= (interleaves ? kMostChunks : 1); ++chunks) {
      for (int stages = 1; stages <= kMostStages; ++stages) {
        for (int microbatches = 1; microbatches <= kMostMicrobatches; microbatches += kStride)
          if (!interleaves || microbatches % stages == 0) check({schedule, stages, microbatches, chunks});
      }
    }
  }
}

// "F0 F1 B0 ...", with the chunk behind a dot where there are several.
std::string order_of(const PipelineShape& shape, int stage) {
  std::string text;
  for (const PipelineStep& step : pipeline_program(shape, stage)) {
    if (!step.action) continue;
    text += text.empty() ? "" : " ";
    text += letter_of(step.action->work) + std::to_string(step.action->microbatch);
    if (shape.chunks > 1) text += "." + std::to_string(step.action->chunk);
  }
  return text;
}

TEST(Pipeline, OrdersAreTheirSchedules) {
  EXPECT_EQ(order_of({PipelineSchedule::gpipe, 4, 3}, 1), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(order_of({PipelineSchedule::one_f_one_b, 4, 5}, 1), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(order_of({PipelineSchedule::one_f_one_b, 4, 5}, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  EXPECT_EQ(order_of({PipelineSchedule::zb_h1, 4, 4}, 2), "F0 F1 I0 F2 I1 F3 I2 W0 I3 W1 W2 W3");
  EXPECT_EQ(order_of({PipelineSchedule::interleaved, 2, 4, 2}, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST(Pipeline, EveryScheduleIsProven) {
  std::array<int, train::kPipelineSchedules> proven{};
  for_all_shapes([&](const PipelineShape& shape) {
    const auto problem = verify_pipeline(shape, pipeline_programs(shape));
    ASSERT_FALSE(problem) << text_of(shape) << ": " << text_of(*problem);
    ++proven[static_cast<std::size_t>(shape.schedule)];
  });
  constexpr int kOfEach = (kMostMicrobatches + kStride - 1) / kStride;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::zb_h1})
    EXPECT_EQ(proven[static_cast<std::size_t>(schedule)], kMostStages * kOfEach) << name_of(schedule);
  int multiples = 0;  // micro-batches that so many stages divide, for every number of them
  for (int stages = 1; stages <= kMostStages; ++stages) multiples += kMostMicrobatches / stages;
  const int interleaved = proven[static_cast<std::size_t>(PipelineSchedule::interleaved)];
  if (kStride == 1)
    EXPECT_EQ(interleaved, kMostChunks * multiples);
  else
    EXPECT_GE(interleaved, kMostChunks * kOfEach) << "of one stage alone";
}

TEST(Pipeline, ForwardsAloneAreProven) {
  for_all_shapes([](const PipelineShape& shape) {
    Programs programs = forward_programs(shape);
    const auto problem = verify_forwards(shape, programs);
    ASSERT_FALSE(problem) << text_of(shape) << ": " << text_of(*problem);
    EXPECT_TRUE(verify_pipeline(shape, programs)) << text_of(shape) << ": backwards are missing";
    programs.back().pop_back();
    EXPECT_TRUE(verify_forwards(shape, programs)) << text_of(shape) << ": the last forward is missing";
  });
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 4, 6};
  EXPECT_DOUBLE_EQ(play_pipeline(forward_programs(shape), {}).span, 6 + 3);
}

TEST(Pipeline, BubblesAreTheirFormulas) {
  for_all_shapes([](const PipelineShape& shape) {
    const PipelineTimes times;
    const PlayedPipeline played = play_pipeline(pipeline_programs(shape), times);
    EXPECT_DOUBLE_EQ(played.work, 3.0 * shape.microbatches * shape.chunks) << text_of(shape);
    if (const auto bubble = bubble_by_formula(shape, times))
      EXPECT_NEAR(played.bubble(), *bubble, 1e-12) << text_of(shape);
    else
      EXPECT_LE(played.bubble(), (shape.stages - 1.0) / shape.microbatches) << text_of(shape) << ": as 1f1b at most";
  });
}

// Two stages of two chunks, by hand: what a stage hands on begins there no sooner than it has ended here.
//   stage 0  F0a F1a F0b F1b ... ... B0b---- ... B1b---- B0a---- B1a----
//   stage 1  ... F0a F1a F0b B0b---- F1b B1b---- B0a---- B1a---- ... ...
TEST(Pipeline, AnInterleavedBubbleByHand) {
  const PlayedPipeline small = play_pipeline(pipeline_programs({PipelineSchedule::interleaved, 2, 2, 2}), {});
  EXPECT_DOUBLE_EQ(small.work, 12);
  EXPECT_DOUBLE_EQ(small.span, 15);
  const PlayedPipeline usual = play_pipeline(pipeline_programs({PipelineSchedule::interleaved, 4, 8, 2}), {});
  EXPECT_DOUBLE_EQ(usual.work, 48);
  EXPECT_DOUBLE_EQ(usual.span, 57);
  EXPECT_DOUBLE_EQ(usual.bubble(), 0.1875);
}

TEST(Pipeline, FormulasHoldForOtherTimes) {
  PipelineTimes times;
  times.forward = 3;
  times.backward = 7;
  for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    const PlayedPipeline played = play_pipeline(pipeline_programs({schedule, 5, 12}), times);
    EXPECT_DOUBLE_EQ(played.span, (12 + 4) * 10);
  }
  times.input_gradient = 4;
  times.weight_gradient = 3;
  const PipelineShape zero_bubble{PipelineSchedule::zb_h1, 5, 12};
  const PlayedPipeline played = play_pipeline(pipeline_programs(zero_bubble), times);
  EXPECT_DOUBLE_EQ(played.span, 12 * 10 + 4 * (3 + 4 - 3));
  EXPECT_NEAR(played.bubble(), bubble_by_formula(zero_bubble, times).value(), 1e-12);
}

TEST(Pipeline, TheSlowestStageSetsThePace) {
  PipelineTimes times;
  times.factors = {1, 1, 2, 1};
  const PlayedPipeline played = play_pipeline(pipeline_programs({PipelineSchedule::one_f_one_b, 4, 16}), times);
  EXPECT_DOUBLE_EQ(played.work, 16 * 6);
  EXPECT_DOUBLE_EQ(played.span, 16 * 6 + 2 + 4 + 1)
      << "forwards before it, backwards behind it, and its wait for the first gradient";
  times.factors.clear();
  times.message = 0.5;
  EXPECT_GT(play_pipeline(pipeline_programs({PipelineSchedule::one_f_one_b, 4, 16}), times).span, (16 + 3) * 3 + 3);
}

TEST(Pipeline, StatedActivationsAreReached) {
  for_all_shapes([](const PipelineShape& shape) {
    const Programs programs = pipeline_programs(shape);
    std::vector<int> held;
    for (int stage = 0; stage < shape.stages; ++stage) held.push_back(activations_held(shape, stage));
    for (std::size_t stage = 0; stage < held.size(); stage += 3) {
      std::vector<int> fewer = held;
      --fewer[stage];
      const auto problem = verify_pipeline(shape, programs, fewer);
      ASSERT_TRUE(problem && problem->kind == Kind::memory) << text_of(shape) << ", stage " << stage;
    }
  });
  EXPECT_EQ(activations_held({PipelineSchedule::gpipe, 4, 8}, 3), 8);
  EXPECT_EQ(activations_held({PipelineSchedule::one_f_one_b, 4, 8}, 0), 4);
  EXPECT_EQ(activations_held({PipelineSchedule::one_f_one_b, 4, 8}, 3), 1);
  EXPECT_EQ(activations_held({PipelineSchedule::interleaved, 4, 8, 2}, 0), 11);
  EXPECT_EQ(activations_held({PipelineSchedule::zb_h1, 4, 8}, 3), 4);
}

TEST(Pipeline, BlockingBatchesWouldNotDo) {
  const auto blocking = [](const PipelineShape& shape) {
    Programs programs;
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::vector<PipelineAction> actions;
      for (const PipelineStep& step : pipeline_program(shape, stage))
        if (step.action) actions.push_back(*step.action);
      programs.push_back(with_messages(shape, stage, actions, 0));
    }
    return play_pipeline(programs, {}, PipelineSends::block);
  };
  EXPECT_THAT(blocking({PipelineSchedule::one_f_one_b, 4, 8}).waiting, SizeIs(0));
  EXPECT_DOUBLE_EQ(blocking({PipelineSchedule::one_f_one_b, 4, 8}).span, (8 + 3) * 3);
  EXPECT_THAT(blocking({PipelineSchedule::interleaved, 4, 8, 2}).waiting, SizeIs(4));
  EXPECT_GT(blocking({PipelineSchedule::zb_h1, 4, 8}).span, 8 * 3 + 3);
}

// ---- Mutants.

constexpr PipelineShape kShapes[] = {{PipelineSchedule::gpipe, 3, 4},
                                     {PipelineSchedule::one_f_one_b, 4, 6},
                                     {PipelineSchedule::interleaved, 3, 6, 2},
                                     {PipelineSchedule::interleaved, 2, 4, 3},
                                     {PipelineSchedule::zb_h1, 4, 6}};

// Changes one step of one stage in turn, and expects that each is found. `change` says whether it could.
void expect_found(const std::function<bool(PipelineProgram&, std::size_t)>& change, const std::string& what) {
  for (const PipelineShape& shape : kShapes) {
    const Programs programs = pipeline_programs(shape);
    std::size_t tried = 0;
    for (std::size_t stage = 0; stage < programs.size(); ++stage) {
      for (std::size_t step = 0; step < programs[stage].size(); ++step) {
        Programs mutant = programs;
        if (!change(mutant[stage], step)) continue;
        ++tried;
        EXPECT_TRUE(verify_pipeline(shape, mutant))
            << what << " of step " << step << ", stage " << stage << " of " << text_of(shape);
      }
    }
    EXPECT_GT(tried, 0u) << what << " in " << text_of(shape);
  }
}

TEST(PipelineMutants, WithoutAnActionOrAMessageAreFound) {
  expect_found(
      [](PipelineProgram& program, std::size_t step) {
        const bool has = program[step].action.has_value();
        program[step].action.reset();
        return has;
      },
      "no action");
  expect_found(
      [](PipelineProgram& program, std::size_t step) {
        const bool has = !program[step].batch.empty();
        if (has) program[step].batch.pop_back();
        return has;
      },
      "no last message");
}

TEST(PipelineMutants, WithSomethingTwiceAreFound) {
  expect_found(
      [](PipelineProgram& program, std::size_t step) {
        if (!program[step].action) return false;
        program.push_back({{}, 0, program[step].action});
        return true;
      },
      "the action twice");
  expect_found(
      [](PipelineProgram& program, std::size_t step) {
        if (program[step].batch.empty()) return false;
        program[step].batch.push_back(program[step].batch.front());
        return true;
      },
      "the first message twice");
}

TEST(PipelineMutants, WithAnotherMicrobatchPeerOrBoundaryAreFound) {
  const auto edited = [](const std::function<void(PipelineMessage&)>& edit) {
    return [edit](PipelineProgram& program, std::size_t step) {
      if (program[step].batch.empty()) return false;
      edit(program[step].batch.front());
      return true;
    };
  };
  expect_found(edited([](PipelineMessage& message) { message.microbatch ^= 1; }), "another micro-batch");
  expect_found(edited([](PipelineMessage& message) { message.peer += 1; }), "another peer");
  expect_found(edited([](PipelineMessage& message) { message.boundary += 1; }), "another boundary");
  expect_found(edited([](PipelineMessage& message) { message.sends = !message.sends; }), "another direction");
}

TEST(PipelineMutants, WhoseActionsWaitForLessOrMoreAreFound) {
  expect_found(
      [](PipelineProgram& program, std::size_t step) {
        const bool has = program[step].awaits > 0;
        program[step].awaits = 0;
        return has;
      },
      "no wait");
  expect_found([](PipelineProgram& program, std::size_t step) { return ++program[step].awaits > 0; }, "one wait more");
}

// Waits first and sends afterwards, where a stage does both at once.
Programs with_pairs_split(Programs programs) {
  for (PipelineProgram& program : programs) {
    PipelineProgram split;
    for (const PipelineStep& step : program) {
      PipelineStep first{{}, step.awaits, {}}, second{{}, 0, step.action};
      for (const PipelineMessage& message : step.batch) (message.sends ? second : first).batch.push_back(message);
      split.push_back(first);
      split.push_back(second);
    }
    program = split;
  }
  return programs;
}

TEST(PipelineMutants, ThatWaitBeforeTheySendWaitForEachOther) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 4, 6};
  const auto problem = verify_pipeline(shape, with_pairs_split(pipeline_programs(shape)));
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, Kind::deadlock);
  EXPECT_EQ(text_of(*problem),
            "stages wait for each other\n"
            "  stage 2, before the backward of micro-batch 0: waits until stage 3 sends the gradient of micro-batch 0\n"
            "  stage 3, before the forward of micro-batch 1: waits until stage 2 sends the activation of micro-batch "
            "1\n");
}

TEST(PipelineMutants, ThatSwapMicrobatchesOnOneSideAreFound) {
  const PipelineShape shape{PipelineSchedule::gpipe, 2, 3};
  Programs programs = pipeline_programs(shape);
  const std::vector<PipelineAction> swapped{{PipelineWork::forward, 1},  {PipelineWork::forward, 0},
                                            {PipelineWork::forward, 2},  {PipelineWork::backward, 0},
                                            {PipelineWork::backward, 1}, {PipelineWork::backward, 2}};
  programs[1] = with_messages(shape, 1, swapped);
  const auto problem = verify_pipeline(shape, programs);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->message,
            "stage 0 sends the activation of micro-batch 0 to stage 1, which expects the activation of micro-batch 1");
}

TEST(PipelineMutants, WithBackwardBeforeForwardAreToldSo) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 1, 2};
  const auto found = [&](const std::vector<PipelineAction>& actions) {
    const auto problem = verify_pipeline(shape, {with_messages(shape, 0, actions)});
    return problem ? problem->message : "";
  };
  using enum PipelineWork;
  EXPECT_EQ(found({{backward, 0}, {forward, 0}, {forward, 1}, {backward, 1}}),
            "stage 0: backward of micro-batch 0 comes before its forward of micro-batch 0");
  EXPECT_EQ(found({{forward, 0}, {weight_gradient, 0}, {input_gradient, 0}}),
            "stage 0: weight gradient of micro-batch 0 comes before its input gradient of micro-batch 0");
  EXPECT_EQ(found({{forward, 0}, {input_gradient, 0}, {backward, 0}}),
            "stage 0: backward of micro-batch 0 comes besides another backward of it");
  EXPECT_EQ(found({{forward, 0}, {input_gradient, 0}, {forward, 1}, {backward, 1}}),
            "stage 0: forward of micro-batch 1 makes it keep activations of 2 micro-batches; stated are 1");
  EXPECT_EQ(found({{forward, 2}}), "stage 0: there is no forward of micro-batch 2");
}

TEST(Pipeline, IsDrawn) {
  const auto drawn = [](const PipelineShape& shape, const PipelineTimes& times = {}) {
    const PlayedPipeline played = play_pipeline(pipeline_programs(shape), times);
    return describe_pipeline(shape, times, played) + draw_pipeline(shape, played);
  };
  EXPECT_EQ(drawn({PipelineSchedule::one_f_one_b, 2, 3}),
            "1f1b: 2 stages, 3 micro-batches\n"
            "  takes       12 forwards, of which 9 are work\n"
            "  bubble      33.3 % of the work, 25.0 % of the step; by its formula (p - 1) / m: 33.3 %\n"
            "  activations 2 1: micro-batches whose activations stages keep at most\n"
            "  messages    6 in a step, half of them activations\n"
            "stage 0  F0 F1 .. .. B0--- F2 B1--- .. B2---\n"
            "stage 1  .. F0 B0--- F1 B1--- F2 B2--- .. ..\n");
  PipelineTimes uneven;
  uneven.factors = {1, 2};
  EXPECT_THAT(drawn({PipelineSchedule::zb_h1, 2, 2}, uneven),
              HasSubstr("stage 0  F0 F1 .. .. .. I0 W0 .. .. I1 W1 .. ..\n"
                        "stage 1  .. F0--- I0--- F1--- I1--- W0--- W1---\n"));
  EXPECT_THAT(drawn({PipelineSchedule::interleaved, 2, 2, 2}), HasSubstr("stage 1  ... F0a F1a F0b B0b---- "));
}

TEST(Pipeline, ImpossibleOnesAreRefused) {
  const auto refusal = [](const PipelineShape& shape) -> std::string {
    try {
      require_possible(shape);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({PipelineSchedule::interleaved, 4, 8, 2}), "");
  EXPECT_EQ(refusal({PipelineSchedule::gpipe, 0, 8}), "a pipeline of 0 stages: there is one at least");
  EXPECT_EQ(refusal({PipelineSchedule::gpipe, 2, 0}), "a pipeline of 0 micro-batches: there is one at least");
  EXPECT_THAT(refusal({PipelineSchedule::one_f_one_b, 2, 4, 2}), HasSubstr("take the schedule interleaved"));
  EXPECT_EQ(refusal({PipelineSchedule::interleaved, 4, 6, 2}),
            "interleaved with 6 micro-batches on 4 stages: micro-batches go round by stages, so their number is a "
            "multiple of it; take 8, or another schedule");
}

}  // namespace
}  // namespace tutti::strategy
