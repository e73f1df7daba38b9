#include "train/pipeline_runner.h"

#include <algorithm>
#include <exception>

#include "strategy/pipeline_sentence.h"
#include "strategy/pipeline_verify.h"
#include "train/agreement.h"
#include "train/counting.h"
#include "train/words.h"

namespace tutti::train {
namespace {

using strategy::PipelineAction;
using strategy::PipelineWork;
using strategy::stage_in_words;

constexpr int kShapeTag = 2;  // behind those of cargoes

std::string in_words(const ArrayShape& shape) {
  return std::string(name_of(shape.type)) + " " + train::in_words(std::span(shape.extents));
}

Request message(Direction direction, void* memory, std::size_t count, DType type, int peer, int tag) {
  Request request{.verb = Verb::send_recv, .element = type, .direction = direction, .peer = peer, .tag = tag};
  if (direction == Direction::send) {
    request.input = memory;
    request.input_count = count;
  } else {
    request.output = memory;
    request.output_count = count;
  }
  return request;
}

}  // namespace

PipelineRunner::PipelineRunner(Communicator& stages, PipelineEngine engine, const PipelineOptions& options)
    : comm_(stages.duplicate()),
      parting_(stages.duplicate()),
      engine_(std::move(engine)),
      options_(options),
      shape_{options.schedule, stages.size(), options.microbatches, options.chunks},
      stage_(stages.rank()) {
  check_alike();
  all_or_none(comm_, [&] { check_settings(engine_); });
  training_.program = pipeline_program(shape_, stage_);
  evaluation_.program = forward_program(shape_, stage_);
  for (Pass* pass : {&training_, &evaluation_}) pass->boundaries.resize(static_cast<std::size_t>(shape_.places() - 1));
  if (shape_.stages == 1) return;
  Communicator ends = comm_.split(stage_ == 0 || stage_ == shape_.stages - 1 ? 0 : -1);
  if (ends.valid()) ends_ = std::move(ends);
}

PipelineRunner::~PipelineRunner() {
  // What is still under way belongs to a step that failed.
  if (!sends_.empty() || !receives_.empty() || !tellings_.empty()) comm_.abort();
}

void PipelineRunner::check_alike() {
  const std::string settings = "the settings schedule " + std::string(name_of(options_.schedule)) + ", microbatches " +
                               std::to_string(options_.microbatches) + ", chunks " + std::to_string(options_.chunks) +
                               (engine_.evaluate ? ", and evaluate()" : "");
  const std::uint64_t hash = hash_of_text(settings);
  Sentence said;
  require_alike(
      comm_, std::span(&hash, 1), [&](std::size_t) { return settings; }, "make the same pipeline on all ranks", said);
}

void PipelineRunner::check_settings(const PipelineEngine& engine) const {
  require_possible(shape_);
  const bool splits = shape_.schedule == PipelineSchedule::zb_h1;
  if (!engine.forward) refuse_call("the engine has no forward(); a pipeline needs it");
  if (!splits && !engine.backward)
    refuse_call("the engine has no backward(), which " + std::string(name_of(shape_.schedule)) + " calls");
  if (splits && (!engine.input_gradient || !engine.weight_gradient))
    refuse_call(
        "zb-h1 calls input_gradient() and weight_gradient(), and the engine lacks one; give both, or take 1f1b");
  if (!options_.inputs.empty() && options_.inputs.size() != static_cast<std::size_t>(shape_.chunks))
    refuse_call("inputs has " + std::to_string(options_.inputs.size()) + " shapes for " +
                std::to_string(shape_.chunks) + " chunks; give one for each, or none");
  if (!options_.verify) return;
  auto problem = verify_pipeline(shape_, pipeline_programs(shape_));
  if (!problem) problem = verify_forwards(shape_, forward_programs(shape_));
  if (problem) refuse_call("the schedule does not verify: " + text_of(*problem));
}

void PipelineRunner::evaluate() {
  if (!engine_.evaluate) refuse_call("the engine has no evaluate(), which evaluate() calls; give it on all ranks");
  run_all(evaluation_);
}

void PipelineRunner::run_all(Pass& pass) {
  if (broken_) throw Error(ErrorCode::aborted, "the pipeline has failed before: " + *broken_);
  pass_ = &pass;
  try {
    run();
  } catch (const Error& error) {
    // What the communicator threw a peer has caused; all else is this stage's own.
    const bool theirs = error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::peer_failed ||
                        error.code() == ErrorCode::aborted;
    part(error, engine_failed_ || !theirs);
  } catch (const std::exception& error) {  // of the caller's memory
    part(Error(ErrorCode::system, stage_in_words(stage_) + ": " + error.what()), true);
  }
  try {
    all_or_none(parting_, [] {});  // a stage may have failed behind what this one has done
  } catch (const Error& said) {
    broken_ = said.what();
    leave();
    throw;
  }
}

void PipelineRunner::run() {
  for (const strategy::PipelineStep& step : pass_->program) {
    start(step.batch);
    for (std::size_t i = 0; i < step.awaits; ++i) await();
    if (step.action) act(*step.action);
  }
  for (Work& work : tellings_) work.wait();
  tellings_.clear();
  for (auto& [to, send] : sends_) send.work.wait();
  sends_.clear();
}

void PipelineRunner::start(const std::vector<Message>& batch) {
  if (batch.empty()) return;
  std::vector<Request> requests;
  std::vector<Work*> works;
  for (const Message& each : batch) {
    if (each.sends)
      start_send(each, requests, works);
    else
      start_receive(each, requests, works);
  }
  std::vector<Work> started = comm_.submit_all(requests);
  for (std::size_t i = 0; i < started.size(); ++i) *works[i] = std::move(started[i]);
}

void PipelineRunner::start_send(const Message& message_sent, std::vector<Request>& requests,
                                std::vector<Work*>& works) {
  Outgoing& send = sends_[{message_sent.peer, message_sent.cargo}];
  if (send.work.valid()) send.work.wait();
  Boundary& crossed = boundary(message_sent.boundary);
  if (message_sent.cargo == Cargo::activation && !crossed.told) {
    crossed.told = true;
    requests.push_back(message(Direction::send, crossed.words.data(), crossed.words.size(), DType::int64,
                               message_sent.peer, kShapeTag));
    works.push_back(&tellings_.emplace_back());
  }
  send.array = std::move(made_.extract({message_sent.cargo, message_sent.microbatch, message_sent.boundary}).mapped());
  requests.push_back(message(Direction::send, send.array.memory.get(), send.array.shape.elements(),
                             send.array.shape.type, message_sent.peer, static_cast<int>(message_sent.cargo)));
  works.push_back(&send.work);
}

// One whose shape is not known yet is started by await(): by then it is. So are those behind it on its edge, where
// messages are matched in order.
void PipelineRunner::start_receive(const Message& message_received, std::vector<Request>& requests,
                                   std::vector<Work*>& works) {
  const auto is_before = [&](const Incoming& other) {
    return other.array.empty() && other.message.peer == message_received.peer &&
           other.message.cargo == message_received.cargo;
  };
  const bool waits = std::any_of(receives_.begin(), receives_.end(), is_before);
  Incoming& incoming = receives_.emplace_back();
  incoming.message = message_received;
  const Boundary& crossed = boundary(message_received.boundary);
  if (waits || (!crossed.shape && message_received.cargo == Cargo::gradient)) return;
  works.push_back(&incoming.work);
  if (!crossed.shape) {
    requests.push_back(shape_receive(incoming));
    return;
  }
  incoming.array = memory_for(*crossed.shape);
  requests.push_back(receive_of(incoming));
}

Request PipelineRunner::shape_receive(Incoming& incoming) {
  return message(Direction::receive, incoming.words.data(), incoming.words.size(), DType::int64, incoming.message.peer,
                 kShapeTag);
}

Request PipelineRunner::receive_of(const Incoming& incoming) {
  return message(Direction::receive, incoming.array.memory.get(), incoming.array.shape.elements(),
                 incoming.array.shape.type, incoming.message.peer, static_cast<int>(incoming.message.cargo));
}

void PipelineRunner::await() {
  Incoming& incoming = receives_.front();
  const bool started = incoming.work.valid();
  if (started) incoming.work.wait();
  if (incoming.array.empty()) {
    const Boundary& crossed = boundary(incoming.message.boundary);
    if (!crossed.shape) {
      if (!started) comm_.run(shape_receive(incoming));
      learn_shape(incoming.message.boundary, incoming.words);
    }
    incoming.array = memory_for(*crossed.shape);
    comm_.run(receive_of(incoming));
  }
  received_ = std::move(incoming.array);
  receives_.pop_front();
}

void PipelineRunner::learn_shape(int number, const ShapeWords& words) {
  ArrayShape shape{static_cast<DType>(words[0]), {words.begin() + 2, words.begin() + 2 + words[1]}};
  const std::size_t chunk = static_cast<std::size_t>((number + 1) / shape_.stages);
  if (pass_ == &training_ && chunk < options_.inputs.size() && options_.inputs[chunk] &&
      *options_.inputs[chunk] != shape) {
    refuse_call(stage_in_words(stage_) + " takes " + in_words(*options_.inputs[chunk]) + ", and " +
                stage_in_words(stage_of(number)) + " makes " + in_words(shape) + " for it" +
                (shape_.chunks > 1 ? " at boundary " + std::to_string(number) : "") +
                "; cut the model where shapes meet");
  }
  boundary(number).shape = std::move(shape);
}

PipelineArray PipelineRunner::memory_for(const ArrayShape& shape) {
  return {shape, options_.allocate ? options_.allocate(shape.bytes()) : pool_.take(shape.bytes())};
}

PipelineArray PipelineRunner::input_of(const PipelineAction& action, int place) {
  const bool forward = action.work == PipelineWork::forward;
  const int from = forward ? place - 1 : place + 1;
  if (action.work == PipelineWork::weight_gradient || from < 0 || from >= shape_.places()) return {};
  if (stage_of(from) != stage_) return std::move(received_);
  return std::move(
      made_.extract({forward ? Cargo::activation : Cargo::gradient, action.microbatch, std::min(from, place)})
          .mapped());
}

PipelineArray PipelineRunner::call_engine(const PipelineAction& action, const PipelineArray& input) {
  const auto tell = [&](const char* what) {
    return stage_in_words(stage_) + ": " + in_words(shape_, action) + ": " + what;
  };
  try {
    switch (action.work) {
      case PipelineWork::forward:
        return (pass_ == &evaluation_ ? engine_.evaluate : engine_.forward)(action.microbatch, action.chunk, input);
      case PipelineWork::backward: return engine_.backward(action.microbatch, action.chunk, input);
      case PipelineWork::input_gradient: return engine_.input_gradient(action.microbatch, action.chunk, input);
      case PipelineWork::weight_gradient: engine_.weight_gradient(action.microbatch, action.chunk);
    }
  } catch (const Error& error) {
    engine_failed_ = true;
    throw Error(error.code(), tell(error.what()), error.peer());
  } catch (const std::exception& error) {
    engine_failed_ = true;
    throw Error(ErrorCode::system, tell(error.what()));
  }
  return {};
}

void PipelineRunner::act(const PipelineAction& action) {
  const int place = action.chunk * shape_.stages + stage_;
  const PipelineArray input = input_of(action, place);
  PipelineArray output = call_engine(action, input);
  if (action.work != PipelineWork::weight_gradient) keep_output(action, place, std::move(output));
}

void PipelineRunner::require_fits(const PipelineAction& action, int number, const PipelineArray& made) {
  const bool forward = action.work == PipelineWork::forward;
  const std::string who = stage_in_words(stage_) + ": " + in_words(shape_, action) + " made ";
  const std::string whom = stage_in_words(stage_of(forward ? number + 1 : number));
  if (made.empty()) refuse_call(who + "nothing, and " + whom + " waits for it; return an array");
  const std::vector<std::int64_t>& extents = made.shape.extents;
  if (extents.size() > kMostExtents)
    refuse_call(who + "an array of " + std::to_string(extents.size()) + " dimensions; there are " +
                std::to_string(kMostExtents) + " at most");
  if (std::any_of(extents.begin(), extents.end(), [](std::int64_t extent) { return extent < 0; }))
    refuse_call(who + in_words(made.shape) + ", which has a negative extent");
  const std::optional<ArrayShape>& known = boundary(number).shape;
  if (!known || *known == made.shape) return;
  refuse_call(who + in_words(made.shape) + " for " + whom +
              (forward ? ", and " + in_words(*known) + " before; micro-batches of a pipeline have one shape"
                       : ", whose activation is " + in_words(*known) + "; a gradient has the shape of its activation"));
}

void PipelineRunner::keep_output(const PipelineAction& action, int place, PipelineArray output) {
  const bool forward = action.work == PipelineWork::forward;
  const int to = forward ? place + 1 : place - 1, number = std::min(to, place);
  if (to < 0 || to >= shape_.places()) return;
  require_fits(action, number, output);
  Boundary& crossed = boundary(number);
  if (!crossed.shape) {
    crossed.shape = output.shape;
    crossed.words = {static_cast<std::int64_t>(output.shape.type),
                     static_cast<std::int64_t>(output.shape.extents.size())};
    std::copy(output.shape.extents.begin(), output.shape.extents.end(), crossed.words.begin() + 2);
  }
  made_[{forward ? Cargo::activation : Cargo::gradient, action.microbatch, number}] = std::move(output);
}

void PipelineRunner::leave() {
  comm_.abort();
  tellings_.clear();
  sends_.clear();
  receives_.clear();
  comm_.close();
  if (ends_) ends_->close();
}

void PipelineRunner::part(const Error& error, bool own) {
  broken_ = error.what();
  leave();
  try {
    all_or_none(parting_, [&] {
      if (own) throw error;
    });
  } catch (const Error& said) {  // a stage's words, or that a rank is gone
    const bool unheard = said.code() == ErrorCode::timeout || said.code() == ErrorCode::peer_lost ||
                         said.code() == ErrorCode::peer_failed || said.code() == ErrorCode::aborted;
    if (own && unheard) throw error;  // nobody is left to tell
    broken_ = said.what();
    throw;
  }
  throw error;
}

void PipelineRunner::reduce_tied(const Request& request) {
  if (broken_) throw Error(ErrorCode::aborted, "the pipeline has failed before: " + *broken_);
  if (ends_) ends_->run(request);
}

Sentence PipelineRunner::sentence() const {
  std::vector<std::uint64_t> bytes;
  for (const Boundary& crossed : training_.boundaries) bytes.push_back(crossed.shape ? crossed.shape->bytes() : 0);
  return sentence_of(shape_, stage_, bytes);
}

Counters PipelineRunner::counters() const {
  Counters counters = comm_.counters();
  add_counters(counters, parting_.counters());
  if (ends_) add_counters(counters, ends_->counters());
  return counters;
}

}  // namespace tutti::train
