// penstock-model: reads one JSON object per line and answers one per line, each before it reads the next.  Knows lines only.
#include <iostream>
#include <string>

#include "model/program/answer.h"

namespace {

enum class Line { kWhole, kTooLong, kEnd };

/// Reads up to a newline.  What is longer than a line may be is read and dropped.
Line next_line(std::istream& input, std::string& line) {
  line.clear();
  bool too_long = false;
  for (int character = input.get(); character != std::istream::traits_type::eof(); character = input.get()) {
    if (character == '\n') return too_long ? Line::kTooLong : Line::kWhole;
    too_long = too_long || line.size() >= penstock::model::kLineBytesMax;
    if (!too_long) line.push_back(static_cast<char>(character));
  }
  if (too_long) return Line::kTooLong;
  return line.empty() ? Line::kEnd : Line::kWhole;
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  for (Line found = next_line(std::cin, line); found != Line::kEnd; found = next_line(std::cin, line)) {
    std::cout << (found == Line::kTooLong ? penstock::model::answer_to_long_line() : penstock::model::answer(line)) << std::endl;
    if (!std::cout) return 1;  // nobody listens any more
  }
  return 0;
}
