#include "tutti/train/pipeline.h"

#include <utility>

#include "train/pipeline_runner.h"

namespace tutti::train {

Pipeline::Pipeline(Communicator& stages, PipelineEngine engine, const PipelineOptions& options)
    : runner_(std::make_unique<PipelineRunner>(stages, std::move(engine), options)) {}
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;
Pipeline::~Pipeline() = default;

void Pipeline::step() { runner_->step(); }
void Pipeline::evaluate() { runner_->evaluate(); }
void Pipeline::reduce_tied(const Request& request) { runner_->reduce_tied(request); }
int Pipeline::stage() const { return runner_->stage(); }
int Pipeline::stages() const { return runner_->shape().stages; }
bool Pipeline::is_first(int chunk) const { return chunk == 0 && stage() == 0; }
bool Pipeline::is_last(int chunk) const { return chunk == options().chunks - 1 && stage() == stages() - 1; }
const PipelineOptions& Pipeline::options() const { return runner_->options(); }
Sentence Pipeline::sentence() const { return runner_->sentence(); }
Counters Pipeline::counters() const { return runner_->counters(); }

}  // namespace tutti::train
