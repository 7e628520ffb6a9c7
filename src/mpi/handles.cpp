// The slab of handles.
#include "mpi/handles.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>

#include "mpi/real.h"

namespace penstock::mpi {

namespace {

struct Slot {
  std::atomic<OpenFile*> open{nullptr};
  std::shared_ptr<OpenFile> owner;  ///< guarded by slab_mutex
};

constexpr std::size_t kSlotsPerChunk = 1024;
constexpr std::size_t kChunks = 1024;  ///< a million files open at once
/// Our Fortran handles start here, far from the small numbers that native libraries count from.
constexpr Fint kFirstFortranHandle = 1 << 24;

using Chunk = std::array<Slot, kSlotsPerChunk>;
std::array<std::atomic<Chunk*>, kChunks> chunks;
std::mutex slab_mutex;

/// First in, first out: a number is used again as late as possible, so that a stale handle is found out.
std::deque<std::size_t>& free_slots() {
  static auto* const list = new std::deque<std::size_t>;
  return *list;
}

bool index_of(const void* pointer, std::size_t& index) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  for (std::size_t c = 0; c < kChunks; ++c) {
    const Chunk* chunk = chunks[c].load(std::memory_order_acquire);
    if (chunk == nullptr) return false;
    const auto first = reinterpret_cast<std::uintptr_t>(chunk->data());
    if (address < first || address >= first + sizeof(Chunk)) continue;
    if ((address - first) % sizeof(Slot) != 0) return false;
    index = c * kSlotsPerChunk + (address - first) / sizeof(Slot);
    return true;
  }
  return false;
}

Slot& slot_at(std::size_t index) {
  return (*chunks[index / kSlotsPerChunk].load(std::memory_order_acquire))[index % kSlotsPerChunk];
}

/// Handles of the native library look like nothing in particular; MPI_FILE_NULL and null are certainly not one.
bool may_be_native(MPI_File handle) { return handle != MPI_FILE_NULL && handle != MPI_File{}; }

}  // namespace

MPI_File add_handle(std::shared_ptr<OpenFile> open) {
  std::lock_guard lock(slab_mutex);
  if (free_slots().size() < kSlotsPerChunk / 2) {  // keeps a reserve, so that numbers rest before they are used again
    for (std::size_t c = 0; c < kChunks; ++c) {
      if (chunks[c].load(std::memory_order_relaxed) != nullptr) continue;
      auto* chunk = new (std::nothrow) Chunk;
      if (chunk == nullptr) break;
      chunks[c].store(chunk, std::memory_order_release);
      for (std::size_t i = 0; i < kSlotsPerChunk; ++i) free_slots().push_back(c * kSlotsPerChunk + i);
      break;
    }
  }
  if (free_slots().empty()) return MPI_File{};
  const std::size_t index = free_slots().front();
  free_slots().pop_front();
  Slot& slot = slot_at(index);
  slot.owner = std::move(open);
  slot.open.store(slot.owner.get(), std::memory_order_release);
  return reinterpret_cast<MPI_File>(&slot);
}

std::shared_ptr<OpenFile> remove_handle(MPI_File handle) {
  std::size_t index = 0;
  if (!index_of(handle, index)) return nullptr;
  std::lock_guard lock(slab_mutex);
  Slot& slot = slot_at(index);
  if (slot.owner == nullptr) return nullptr;
  slot.open.store(nullptr, std::memory_order_release);
  free_slots().push_back(index);
  return std::move(slot.owner);
}

OpenFile* find_open(MPI_File handle) {
  std::size_t index = 0;
  if (!index_of(handle, index)) return nullptr;
  return reinterpret_cast<Slot*>(handle)->open.load(std::memory_order_acquire);
}

std::shared_ptr<OpenFile> share_open(MPI_File handle) {
  std::size_t index = 0;
  if (!index_of(handle, index)) return nullptr;
  std::lock_guard lock(slab_mutex);
  return slot_at(index).owner;
}

bool is_ours(MPI_File handle) {
  std::size_t index = 0;
  return index_of(handle, index);
}

bool native_of(MPI_File handle, MPI_File* native) {
  if (const OpenFile* open = find_open(handle); open != nullptr) {
    if (open->file != nullptr) return false;
    *native = open->native;
    return true;
  }
  if (is_ours(handle) || !may_be_native(handle)) return false;
  *native = handle;
  return true;
}

Fint fortran_handle(MPI_File handle) {
  std::size_t index = 0;
  if (!index_of(handle, index)) return 0;
  return kFirstFortranHandle + static_cast<Fint>(index);
}

MPI_File from_fortran_handle(Fint handle) {
  if (handle < kFirstFortranHandle) return MPI_FILE_NULL;
  const auto index = static_cast<std::size_t>(handle - kFirstFortranHandle);
  if (index >= kChunks * kSlotsPerChunk || chunks[index / kSlotsPerChunk].load(std::memory_order_acquire) == nullptr) return MPI_FILE_NULL;
  return reinterpret_cast<MPI_File>(&slot_at(index));
}

Status no_such_handle(MPI_File handle, const char* operation) {
  const char* what = handle == MPI_FILE_NULL ? ": the file handle is MPI_FILE_NULL; open the file first"
                     : is_ours(handle)       ? ": the file is closed already; its handle cannot be used any more"
                                             : ": this is not a file handle that MPI_File_open returned";
  return Status::failure(Code::kHandle, std::string(operation) + what);
}

}  // namespace penstock::mpi
