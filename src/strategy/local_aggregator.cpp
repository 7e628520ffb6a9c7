// Three steps are under way at once, each in slots of its own: what is written here about what may be used again is about the slots of the step three before.
#include "strategy/local_aggregator.h"

#include <algorithm>

namespace penstock::strategy {

using trace::Phase;
using trace::PhaseScope;

LocalAggregator::LocalAggregator(Call& call, const Agreement& agreement, const Buffers& buffers, Member& self)
    : call_(call),
      agreement_(agreement),
      buffers_(buffers),
      self_(self),
      windows_(call, agreement, buffers),
      team_(agreement.division.domains()) {}

Status LocalAggregator::prepare() {
  PENSTOCK_TRY(windows_.prepare());
  team_ = agreement_.agenda_of_team();
  for (std::vector<Message>& messages : messages_)
    messages.reserve(static_cast<std::size_t>(agreement_.division.aggregators()) + agreement_.walks.size());
  look_ahead(0);
  if (!call_.access().write && !step(0).over()) look_ahead(1);
  return {};
}

LocalAggregator::Step LocalAggregator::next_step() const {
  const Offset own = team_.next_round(), served = windows_.next_round();
  Step step;
  step.round = std::min(own, served);
  step.moves = !step.over() && own == step.round;
  step.serves = !step.over() && served == step.round;
  return step;
}

/// Finds the i-th step behind those before it, tells the members of it, and remembers the messages that it takes.
void LocalAggregator::look_ahead(int i) {
  step(i) = next_step();
  Round told{step(i).round, step(i).over() ? 1 : 0, step(i).moves ? 1 : 0, 0, 0, 0};
  if (step(i).serves) {
    windows_.begin(i, step(i).round);
    if (!call_.access().write) {
      const FileRange wanted = windows_.touched(i);
      told.window_first = windows_.window_first(i);
      told.read_first = wanted.first;
      told.read_end = wanted.end;
    }
  }
  place_messages(i);
  buffers_.round(i) = told;
}

void LocalAggregator::place_messages(int i) {
  const Step& step = this->step(i);
  std::vector<Message>& messages = this->messages(i);
  messages.clear();
  if (!step.moves) return;
  const Collective& access = call_.access();
  Offset staged = 0;
  int place = -1;  // of the last message
  team_.take(step.round, [&](const Agenda::Entry& part, Offset end) {
    if (part.aggregator == agreement_.division.place()) return;
    const Offset bytes = end - part.position;
    std::byte* data = nullptr;
    if (call_.direct()) {
      data = access.buffer + (part.position - access.position);
    } else {
      data = buffers_.staging(i) + staged;
      buffers_.place(i, part.index, part.aggregator) = staged;
      staged += bytes;
    }
    if (part.aggregator == place && agreement_.division.fit_together(messages.back().bytes, bytes))
      messages.back().bytes += bytes;
    else
      messages.push_back({agreement_.division.rank_of(part.aggregator), data, bytes});
    place = part.aggregator;
  });
}

// --- Writing ----------------------------------------------------------------------------------------------------------

Status LocalAggregator::lead_writing() {
  Status status;  // a failure of messages: from then on only the team is kept going
  int i = 0;
  for (; !step(i).over(); ++i) {
    if (!status.ok()) windows_.serve_no_more();
    exchange(i) = call_.access().comm.exchange();
    if (step(i).serves && status.ok()) status = windows_.expect_data(i);
    if (step(i).moves) self_.move(step(i).round, i);
    look_ahead(i + 1);
    self_.meet();
    if (status.ok()) status = send_messages(i);
    // The round before: its data go to the file while this one's are on their way.
    if (status.ok() && i > 0) status = finish_writing(i - 1);
    if (step(i).serves && status.ok()) status = windows_.take_in(i);
  }
  if (status.ok() && i > 0) status = finish_writing(i - 1);
  return status;
}

Status LocalAggregator::send_messages(int i) {
  for (const Message& message : messages(i)) {
    call_.count_message(message.rank, message.bytes);
    PENSTOCK_TRY(exchange(i)->send(message.rank, message.data, static_cast<std::size_t>(message.bytes)));
  }
  return {};
}

/// What is in the file is not this call's business any more.
Status LocalAggregator::finish_writing(int i) {
  if (step(i).serves && call_.ok()) call_.note(windows_.write(i));
  const PhaseScope phase(call_.access().trace, Phase::kCommunicate);
  return exchange(i)->wait();
}

// --- Reading ----------------------------------------------------------------------------------------------------------

Status LocalAggregator::lead_reading() {
  Status status;
  self_.read_share(0);
  self_.meet();
  int i = 0;
  for (; !step(i).over(); ++i) {
    if (!status.ok()) windows_.serve_no_more();
    exchange(i) = call_.access().comm.exchange();
    if (status.ok()) status = receive_messages(i);
    if (step(i).serves && status.ok()) status = windows_.deliver(i);
    if (i > 0 && step(i - 1).moves) self_.move(step(i - 1).round, i - 1);
    self_.read_share(i + 1);
    // The step behind the next one uses the slots of the one before this, which is over now but for what other ranks have not fetched yet.
    if (status.ok()) status = windows_.finish_delivering_before(i);
    if (!step(i + 1).over()) look_ahead(i + 2);
    if (status.ok()) status = finish_receiving(i);
    self_.meet();
  }
  if (i > 0 && step(i - 1).moves) self_.move(step(i - 1).round, i - 1);
  return status.ok() ? windows_.finish_delivering() : status;
}

Status LocalAggregator::receive_messages(int i) {
  for (const Message& message : messages(i))
    PENSTOCK_TRY(exchange(i)->receive(message.rank, message.data, static_cast<std::size_t>(message.bytes)));
  return {};
}

Status LocalAggregator::finish_receiving(int i) {
  const PhaseScope phase(call_.access().trace, Phase::kCommunicate);
  return exchange(i)->wait();
}

}  // namespace penstock::strategy
