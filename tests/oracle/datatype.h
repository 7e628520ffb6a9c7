// The truth about datatypes and views, byte by byte: slow, and simple enough to be checked by eye against MPI 4.1
// chapter 5.  Shares no code with Penstock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::oracle {

using Number = std::int64_t;
using Numbers = std::vector<Number>;

enum class Combiner { kElementary, kContiguous, kHvector, kHindexed, kHindexedBlock, kStructure, kResized, kSubarray, kDarray };
enum class Spread { kBlock, kCyclic, kNone };  ///< of a darray's dimension; argument -1 is the default

/// A datatype as a program describes it.  Only the fields of its combiner are used.
struct Datatype {
  Combiner combiner = Combiner::kElementary;
  Number size = 1;   ///< elementary: bytes
  int element = 0;   ///< elementary: what it is; 0 means raw bytes
  Number count = 0;  ///< contiguous, hvector
  Number block_length = 0;
  Number stride = 0;  ///< bytes
  Numbers block_lengths, displacements;
  Number lower_bound = 0, extent = 0;
  Numbers sizes, subsizes, starts;
  bool fortran = false;
  int process_count = 1, rank = 0;
  std::vector<Spread> spreads;
  Numbers arguments, process_sizes;
  std::vector<Datatype> parts;  ///< structure: as many as blocks; others: one, elementary: none
};

/// One byte of data: where it is, and which byte of what element.
struct Byte {
  Number offset = 0;
  int element = 0;
  Number element_size = 1;
};

/// A typemap with its markers, in data order.
struct Typemap {
  std::vector<Byte> bytes;
  Numbers lower_markers, upper_markers;

  Number lower_bound() const {
    if (!lower_markers.empty()) return *std::min_element(lower_markers.begin(), lower_markers.end());
    if (bytes.empty()) return 0;
    Number lowest = bytes[0].offset;
    for (const Byte& byte : bytes) lowest = std::min(lowest, byte.offset);
    return lowest;
  }
  Number upper_bound() const {
    if (!upper_markers.empty()) return *std::max_element(upper_markers.begin(), upper_markers.end());
    if (bytes.empty()) return 0;
    Number highest = bytes[0].offset;
    for (const Byte& byte : bytes) highest = std::max(highest, byte.offset);
    return highest + 1;
  }
  Number extent() const { return upper_bound() - lower_bound(); }

  void append(const Typemap& other, Number displacement) {
    for (Byte byte : other.bytes) {
      byte.offset += displacement;
      bytes.push_back(byte);
    }
    for (Number marker : other.lower_markers) lower_markers.push_back(marker + displacement);
    for (Number marker : other.upper_markers) upper_markers.push_back(marker + displacement);
  }
  void append_block(const Typemap& other, Number displacement, Number copies) {
    const Number extent = other.extent();
    for (Number i = 0; i < copies; ++i) append(other, displacement + i * extent);
  }
};

/// Every index of an array in storage order; `mine` says which are taken.
template <typename Mine>
Typemap expand_array(const Datatype& type, const Typemap& element, Mine mine) {
  const Numbers& sizes = type.sizes;
  const Number extent = element.extent();
  Typemap result;
  Number total = 1;
  for (Number size : sizes) total *= size;
  for (Number linear = 0; linear < total; ++linear) {
    Numbers index(sizes.size());
    Number rest = linear;
    for (std::size_t step = 0; step < sizes.size(); ++step) {
      const std::size_t dimension = type.fortran ? step : sizes.size() - 1 - step;
      index[dimension] = rest % sizes[dimension];
      rest /= sizes[dimension];
    }
    if (mine(index)) result.append(element, linear * extent);
  }
  // The bounds are those of the array, as every MPI library has it.
  result.lower_markers = {0};
  result.upper_markers = {total * extent};
  return result;
}

inline Typemap expand_subarray(const Datatype& type, const Typemap& element) {
  return expand_array(type, element, [&](const Numbers& index) {
    for (std::size_t i = 0; i < index.size(); ++i)
      if (index[i] < type.starts[i] || index[i] >= type.starts[i] + type.subsizes[i]) return false;
    return true;
  });
}

inline Typemap expand_darray(const Datatype& type, const Typemap& element) {
  // The rank's place in the grid of processes, which is row-major whatever the order of the array.
  const std::size_t dimensions = type.sizes.size();
  Numbers place(dimensions);
  Number rest_rank = type.rank, rest_size = type.process_count;
  for (std::size_t i = 0; i < dimensions; ++i) {
    rest_size /= type.process_sizes[i];
    place[i] = rest_rank / rest_size;
    rest_rank %= rest_size;
  }
  return expand_array(type, element, [&](const Numbers& index) {
    for (std::size_t i = 0; i < dimensions; ++i) {
      Number block = type.arguments[i];
      if (type.spreads[i] == Spread::kNone) block = type.sizes[i];
      else if (block == -1 && type.spreads[i] == Spread::kCyclic) block = 1;
      else if (block == -1) block = (type.sizes[i] + type.process_sizes[i] - 1) / type.process_sizes[i];
      if (index[i] / block % type.process_sizes[i] != place[i]) return false;
    }
    return true;
  });
}

inline Typemap expand(const Datatype& type) {
  std::vector<Typemap> parts;
  for (const Datatype& part : type.parts) parts.push_back(expand(part));
  Typemap result;
  switch (type.combiner) {
    case Combiner::kElementary:
      for (Number i = 0; i < type.size; ++i) result.bytes.push_back({i, type.element, type.element == 0 ? 1 : type.size});
      return result;
    case Combiner::kContiguous:
      result.append_block(parts.at(0), 0, type.count);
      return result;
    case Combiner::kHvector:
      for (Number i = 0; i < type.count; ++i) result.append_block(parts.at(0), i * type.stride, type.block_length);
      return result;
    case Combiner::kHindexed:
      for (std::size_t i = 0; i < type.displacements.size(); ++i)
        result.append_block(parts.at(0), type.displacements[i], type.block_lengths[i]);
      return result;
    case Combiner::kHindexedBlock:
      for (Number displacement : type.displacements) result.append_block(parts.at(0), displacement, type.block_length);
      return result;
    case Combiner::kStructure:
      for (std::size_t i = 0; i < type.displacements.size(); ++i)
        result.append_block(parts.at(i), type.displacements[i], type.block_lengths[i]);
      return result;
    case Combiner::kResized:
      result = parts.at(0);
      result.lower_markers = {type.lower_bound};
      result.upper_markers = {type.lower_bound + type.extent};
      return result;
    case Combiner::kSubarray:
      return expand_subarray(type, parts.at(0));
    case Combiner::kDarray:
      return expand_darray(type, parts.at(0));
  }
  return result;
}

/// A datatype repeated without end from `displacement` on: a view, or a buffer.  Requires data.
class Tiles {
 public:
  Tiles(const Typemap& map, Number displacement) : map_(map), displacement_(displacement), extent_(map.extent()) {}

  const Typemap& map() const { return map_; }
  Number size() const { return static_cast<Number>(map_.bytes.size()); }
  Byte byte(Number position) const {
    Byte byte = map_.bytes[static_cast<std::size_t>(position % size())];
    byte.offset += displacement_ + position / size() * extent_;
    return byte;
  }
  Number offset_of(Number position) const { return byte(position).offset; }
  /// How many bytes of data are below `offset`.  Requires offsets that never decrease.
  Number position_of(Number offset) const {
    Number position = 0;
    while (offset_of(position) < offset) ++position;
    return position;
  }

 private:
  Typemap map_;
  Number displacement_;
  Number extent_;
};

/// Moves data positions [position, position + bytes) of `file` to or from those of `memory`, a byte at a time.  Bytes of
/// a file past its end read as nothing: the result is the number of bytes moved before the first such byte.
inline Number read(const std::vector<std::uint8_t>& file_bytes, const Tiles& file, Number position, std::uint8_t* buffer,
                   const Tiles& memory, Number memory_position, Number bytes) {
  for (Number i = 0; i < bytes; ++i) {
    const Number offset = file.offset_of(position + i);
    if (offset >= static_cast<Number>(file_bytes.size())) return i;
    buffer[memory.offset_of(memory_position + i)] = file_bytes[static_cast<std::size_t>(offset)];
  }
  return bytes;
}

inline void write(std::vector<std::uint8_t>& file_bytes, const Tiles& file, Number position, const std::uint8_t* buffer,
                  const Tiles& memory, Number memory_position, Number bytes) {
  for (Number i = 0; i < bytes; ++i) {
    const std::size_t offset = static_cast<std::size_t>(file.offset_of(position + i));
    if (offset >= file_bytes.size()) file_bytes.resize(offset + 1);
    file_bytes[offset] = buffer[memory.offset_of(memory_position + i)];
  }
}

inline std::string to_string(const Numbers& numbers) {
  std::string text = "[";
  for (Number number : numbers) {
    if (text.size() > 1) text += ",";
    text += std::to_string(number);
  }
  text += "]";
  return text;
}

/// A description that a person can type in again.
inline std::string to_string(const Datatype& type) {
  auto number = [](Number value) { return std::to_string(value); };
  std::string parts;
  for (const Datatype& part : type.parts) parts += ", " + to_string(part);
  switch (type.combiner) {
    case Combiner::kElementary: return "elementary(" + number(type.size) + ", kind " + number(type.element) + ")";
    case Combiner::kContiguous: return "contiguous(" + number(type.count) + parts + ")";
    case Combiner::kHvector:
      return "hvector(" + number(type.count) + ", " + number(type.block_length) + ", " + number(type.stride) + parts + ")";
    case Combiner::kHindexed:
      return "hindexed(" + to_string(type.block_lengths) + ", " + to_string(type.displacements) + parts + ")";
    case Combiner::kHindexedBlock:
      return "hindexed_block(" + number(type.block_length) + ", " + to_string(type.displacements) + parts + ")";
    case Combiner::kStructure:
      return "structure(" + to_string(type.block_lengths) + ", " + to_string(type.displacements) + parts + ")";
    case Combiner::kResized:
      return "resized(" + number(type.lower_bound) + ", " + number(type.extent) + parts + ")";
    case Combiner::kSubarray:
      return "subarray(" + to_string(type.sizes) + ", " + to_string(type.subsizes) + ", " + to_string(type.starts) +
             (type.fortran ? ", Fortran" : ", C") + parts + ")";
    case Combiner::kDarray: {
      Numbers spreads;
      for (Spread spread : type.spreads) spreads.push_back(static_cast<Number>(spread));
      return "darray(" + number(type.process_count) + ", " + number(type.rank) + ", " + to_string(type.sizes) + ", spread " +
             to_string(spreads) + ", " + to_string(type.arguments) + ", " + to_string(type.process_sizes) +
             (type.fortran ? ", Fortran" : ", C") + parts + ")";
    }
  }
  return "";
}

// Short ways to write descriptions in tests.
inline Datatype elementary(Number size, int element = 0) {
  Datatype type;
  type.size = size;
  type.element = element;
  return type;
}
inline Datatype contiguous(Number count, Datatype part) {
  Datatype type;
  type.combiner = Combiner::kContiguous;
  type.count = count;
  type.parts = {std::move(part)};
  return type;
}
inline Datatype hvector(Number count, Number block_length, Number stride, Datatype part) {
  Datatype type = contiguous(count, std::move(part));
  type.combiner = Combiner::kHvector;
  type.block_length = block_length;
  type.stride = stride;
  return type;
}
inline Datatype hindexed(Numbers block_lengths, Numbers displacements, Datatype part) {
  Datatype type;
  type.combiner = Combiner::kHindexed;
  type.block_lengths = std::move(block_lengths);
  type.displacements = std::move(displacements);
  type.parts = {std::move(part)};
  return type;
}
inline Datatype hindexed_block(Number block_length, Numbers displacements, Datatype part) {
  Datatype type = hindexed({}, std::move(displacements), std::move(part));
  type.combiner = Combiner::kHindexedBlock;
  type.block_length = block_length;
  return type;
}
inline Datatype structure(Numbers block_lengths, Numbers displacements, std::vector<Datatype> parts) {
  Datatype type;
  type.combiner = Combiner::kStructure;
  type.block_lengths = std::move(block_lengths);
  type.displacements = std::move(displacements);
  type.parts = std::move(parts);
  return type;
}
inline Datatype resized(Number lower_bound, Number extent, Datatype part) {
  Datatype type;
  type.combiner = Combiner::kResized;
  type.lower_bound = lower_bound;
  type.extent = extent;
  type.parts = {std::move(part)};
  return type;
}
inline Datatype subarray(Numbers sizes, Numbers subsizes, Numbers starts, bool fortran, Datatype part) {
  Datatype type;
  type.combiner = Combiner::kSubarray;
  type.sizes = std::move(sizes);
  type.subsizes = std::move(subsizes);
  type.starts = std::move(starts);
  type.fortran = fortran;
  type.parts = {std::move(part)};
  return type;
}
inline Datatype darray(int process_count, int rank, Numbers sizes, std::vector<Spread> spreads, Numbers arguments,
                       Numbers process_sizes, bool fortran, Datatype part) {
  Datatype type;
  type.combiner = Combiner::kDarray;
  type.process_count = process_count;
  type.rank = rank;
  type.sizes = std::move(sizes);
  type.spreads = std::move(spreads);
  type.arguments = std::move(arguments);
  type.process_sizes = std::move(process_sizes);
  type.fortran = fortran;
  type.parts = {std::move(part)};
  return type;
}

}  // namespace penstock::oracle
