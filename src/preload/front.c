// The library that is preloaded: finds out which MPI is in the process and passes MPI_File_* calls to the flavour
// built for it.
//
// It may be loaded into any program, MPI or not (launchers, shells, compilers), so it needs only libc, starts
// nothing, says nothing and knows no type of MPI.  Every argument of every file function is an integer or a pointer
// and none has more than six, so a stub hands six machine words on through its slot.  A slot first leads to the
// search for the MPI library, afterwards to the flavour's function (or to the native one, when the user asked for
// that or there is no flavour to load).
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/front_symbols.h"  // generated: PENSTOCK_FRONT_SYMBOLS

#define EXPORTED __attribute__((visibility("default")))
#define WORDS intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f

typedef intptr_t (*FileFunction)(WORDS);

/// What became of the calls, for tools that look into the process: one word (idle, flavour, bypass, native, absent),
/// then details.
EXPORTED char penstock_front_state[PATH_MAX + 512] = "idle: no MPI_File function was called yet";

// --- Slots and stubs. ------------------------------------------------------------------------------------------------

static FileFunction function_for(int slot, const void* caller);

#define DECLARE_FIRST(slot, symbol, missing) static intptr_t first_##symbol(WORDS);
PENSTOCK_FRONT_SYMBOLS(DECLARE_FIRST)

#define SLOT(slot, symbol, missing) first_##symbol,
static _Atomic(FileFunction) slots[PENSTOCK_FRONT_SYMBOL_COUNT] = {PENSTOCK_FRONT_SYMBOLS(SLOT)};

#define NAME(slot, symbol, missing) #symbol,
static const char* const slot_names[PENSTOCK_FRONT_SYMBOL_COUNT] = {PENSTOCK_FRONT_SYMBOLS(NAME)};

/// What a function returns when there is nothing to call: an error (MPI_ERR_OTHER in Open MPI and in the standard
/// ABI, MPI_ERR_INTERN in MPICH, whose numbers we cannot know before we know the MPI) or a null handle.
enum Missing { kNoFile = 0, kNoMpiError = 16 };

#define MISSING(slot, symbol, missing) missing,
static const unsigned char missing_results[PENSTOCK_FRONT_SYMBOL_COUNT] = {PENSTOCK_FRONT_SYMBOLS(MISSING)};

static intptr_t no_file(WORDS) { return kNoFile; }
static intptr_t no_mpi_error(WORDS) { return kNoMpiError; }
static FileFunction missing_function(int slot) { return missing_results[slot] == kNoFile ? no_file : no_mpi_error; }

// The stub jumps, so the return address that `first_` sees is the program's: it tells whose MPI library to use.
#define STUB(slot, symbol, missing)                                             \
  EXPORTED intptr_t symbol(WORDS);                                              \
  EXPORTED intptr_t symbol(WORDS) {                                             \
    return atomic_load_explicit(&slots[slot], memory_order_acquire)(a, b, c, d, e, f); \
  }                                                                             \
  static intptr_t first_##symbol(WORDS) {                                       \
    return function_for(slot, __builtin_return_address(0))(a, b, c, d, e, f);   \
  }
PENSTOCK_FRONT_SYMBOLS(STUB)

// --- The MPI libraries in this process. ----------------------------------------------------------------------------------

typedef struct {
  struct link_map* map;
  void* handle;  ///< kept open: our slots point into the library
} MpiLibrary;

enum { kLibrariesMax = 8, kNamesMax = 64 };

typedef struct {
  MpiLibrary items[kLibrariesMax];
  int count;
} MpiLibraries;

typedef struct {
  char* items[kNamesMax];
  int count;
} ObjectNames;

static const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/// Only notes names: opening a library from here would be a call into the loader from within the loader.
static int note_name(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  ObjectNames* names = data;
  const bool likely = object->dlpi_name != NULL && strstr(base_name(object->dlpi_name), "mpi") != NULL;
  if (likely && names->count < kNamesMax) {
    char* copy = strdup(object->dlpi_name);
    if (copy != NULL) names->items[names->count++] = copy;
  }
  return 0;
}

/// Adds the library that defines `symbol`, once.
static void note_library(MpiLibraries* libraries, void* symbol) {
  Dl_info info;
  struct link_map* map = NULL;
  if (symbol == NULL || dladdr1(symbol, &info, (void**)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) return;
  for (int i = 0; i < libraries->count; ++i)
    if (libraries->items[i].map == map) return;
  void* handle = map->l_name[0] != '\0' ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (handle == NULL || libraries->count == kLibrariesMax) return;
  libraries->items[libraries->count++] = (MpiLibrary){map, handle};
}

/// The library that comes next in the global scope first, then those that modules keep to themselves.
static MpiLibraries find_libraries(void) {
  MpiLibraries libraries = {.count = 0};
  ObjectNames names = {.count = 0};
  note_library(&libraries, dlsym(RTLD_NEXT, "PMPI_Init"));
  dl_iterate_phdr(note_name, &names);
  for (int i = 0; i < names.count; ++i) {
    void* handle = dlopen(names.items[i], RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL) {
      note_library(&libraries, dlsym(handle, "PMPI_Init"));
      dlclose(handle);
    }
    free(names.items[i]);
  }
  return libraries;
}

/// The address in a dynamic entry; most systems relocate it when loading, some leave it relative to the object.
static const char* dynamic_string_table(const struct link_map* map) {
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_STRTAB) continue;
    const ElfW(Addr) address = entry->d_un.d_ptr;
    return (const char*)(address < map->l_addr ? address + map->l_addr : address);
  }
  return NULL;
}

/// The first string of kind `tag` (DT_NEEDED, DT_SONAME) that equals `wanted`, or just the first when `wanted` is null.
static const char* dynamic_string(const struct link_map* map, ElfW(Sxword) tag, const char* wanted) {
  const char* strings = dynamic_string_table(map);
  if (strings == NULL) return NULL;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != tag) continue;
    const char* text = strings + entry->d_un.d_val;
    if (wanted == NULL || strcmp(base_name(text), wanted) == 0) return text;
  }
  return NULL;
}

static bool depends_on(const struct link_map* object, const struct link_map* library) {
  if (object == library) return true;
  const char* soname = dynamic_string(library, DT_SONAME, NULL);
  return (soname != NULL && dynamic_string(object, DT_NEEDED, soname) != NULL) ||
         dynamic_string(object, DT_NEEDED, base_name(library->l_name)) != NULL;
}

/// With several MPI libraries in the process, the one that the caller was linked with.
static const MpiLibrary* library_of(const MpiLibraries* libraries, const void* caller) {
  Dl_info info;
  struct link_map* object = NULL;
  if (libraries->count == 0) return NULL;
  if (libraries->count > 1 && dladdr1(caller, &info, (void**)&object, RTLD_DL_LINKMAP) != 0 && object != NULL) {
    for (int i = 0; i < libraries->count; ++i)
      if (depends_on(object, libraries->items[i].map)) return &libraries->items[i];
  }
  return &libraries->items[0];
}

/// Which flavour serves this library, or null when we know none.  The standard ABI goes by its name, which the
/// standard fixes: behind it may be either family.  Both other marks are symbols that the family's mpi.h makes
/// programs refer to.
static const char* flavour_of(const MpiLibrary* library) {
  if (strstr(base_name(library->map->l_name), "mpi_abi") != NULL) return "abi";
  if (dlsym(library->handle, "ompi_mpi_comm_world") != NULL) return "ompi";
  if (dlsym(library->handle, "MPIR_Dup_fn") != NULL) return "mpich";
  return NULL;
}

// --- Native functions. -----------------------------------------------------------------------------------------------

static void* chosen_handle;     ///< of the MPI library in use, null before it is known
static bool only_chosen_handle;  ///< another MPI library may be the next in the preload order

/// What a flavour uses to reach the native library: whatever stands behind us in the preload order, then the library
/// itself.
static void* native_symbol(const char* name) {
  void* symbol = only_chosen_handle ? NULL : dlsym(RTLD_NEXT, name);
  if (symbol == NULL && chosen_handle != NULL) symbol = dlsym(chosen_handle, name);
  return symbol;
}

static FileFunction native_function(int slot) {
  void* symbol = native_symbol(slot_names[slot]);
  return symbol != NULL ? (FileFunction)symbol : missing_function(slot);
}

// --- Loading the flavour. --------------------------------------------------------------------------------------------

static bool is_set(const char* variable) {
  const char* value = secure_getenv(variable);
  return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/// The file that `address` is mapped from, with its whole path: the loader keeps a relative LD_PRELOAD as it was
/// written, which says nothing any more once the program has changed its directory.
static bool mapped_file(const void* address, char path[PATH_MAX]) {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return false;
  char line[PATH_MAX + 128];
  bool found = false;
  while (!found && fgets(line, sizeof line, maps) != NULL) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    const char* name = strchr(line, '/');
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2 || name == NULL) continue;
    found = (uintptr_t)address >= begin && (uintptr_t)address < end;
    if (found) snprintf(path, PATH_MAX, "%.*s", (int)strcspn(name, "\n"), name);
  }
  fclose(maps);
  return found;
}

static bool own_path(char path[PATH_MAX]) {
  Dl_info info;
  if (dladdr(penstock_front_state, &info) != 0 && info.dli_fname != NULL && info.dli_fname[0] == '/') {
    snprintf(path, PATH_MAX, "%s", info.dli_fname);
    return true;
  }
  return mapped_file(penstock_front_state, path);
}

/// Loads the flavour that lies beside this library, or beside what this library is a link to.
static void* load_flavour(const char* flavour, char path[PATH_MAX]) {
  char front[PATH_MAX];
  char resolved[PATH_MAX];
  if (!own_path(front)) {
    snprintf(path, PATH_MAX, "libpenstock-%s.so", flavour);
    return NULL;
  }
  const bool linked = realpath(front, resolved) != NULL && strcmp(front, resolved) != 0;
  for (int attempt = 0; attempt < (linked ? 2 : 1); ++attempt) {
    const char* beside = attempt == 0 ? front : resolved;
    const int length = (int)(base_name(beside) - beside);
    snprintf(path, PATH_MAX, "%.*slibpenstock-%s.so", length, beside, flavour);
    void* handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != NULL || access(path, F_OK) == 0) return handle;
  }
  return NULL;
}

/// The log gets one line; a log that cannot be written is no reason to disturb the program.
static void append_to_log(const char* line) {
  const char* path = secure_getenv("PENSTOCK_LOG");
  if (path == NULL || path[0] == '\0') return;
  const int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (log < 0) return;
  char text[sizeof penstock_front_state + 64];
  const int length = snprintf(text, sizeof text, "penstock: process %ld: %s\n", (long)getpid(), line);
  ssize_t written;
  do {
    written = write(log, text, length < (int)sizeof text ? (size_t)length : sizeof text - 1);
  } while (written < 0 && errno == EINTR);
  close(log);
}

__attribute__((format(printf, 1, 2))) static void say_state(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(penstock_front_state, sizeof penstock_front_state, format, values);
  va_end(values);
}

static void fill_with_native(void) {
  for (int slot = 0; slot < PENSTOCK_FRONT_SYMBOL_COUNT; ++slot)
    atomic_store_explicit(&slots[slot], native_function(slot), memory_order_release);
}

/// Calls go to the native library because we cannot serve them; the log says why.
static void pass_through(const MpiLibrary* library, const char* why) {
  fill_with_native();
  say_state("native: file calls go to %s, not to Penstock: %s", library->map->l_name, why);
  append_to_log(penstock_front_state);
}

/// All slots or none: a program must not see half of its calls served by another library.
static bool fill_with_flavour(void* flavour) {
  FileFunction functions[PENSTOCK_FRONT_SYMBOL_COUNT];
  for (int slot = 0; slot < PENSTOCK_FRONT_SYMBOL_COUNT; ++slot) {
    functions[slot] = (FileFunction)dlsym(flavour, slot_names[slot]);
    if (functions[slot] == NULL) return false;
  }
  for (int slot = 0; slot < PENSTOCK_FRONT_SYMBOL_COUNT; ++slot)
    atomic_store_explicit(&slots[slot], functions[slot], memory_order_release);
  return true;
}

/// Lets a flavour's references to MPI functions and handles find the library that a module loaded for itself alone.
static bool promote(const MpiLibrary* library) {
  void* handle = dlopen(library->map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
  if (handle == NULL) return false;
  Dl_info info;
  struct link_map* first = NULL;
  void* symbol = dlsym(RTLD_DEFAULT, "PMPI_Init");
  return symbol != NULL && dladdr1(symbol, &info, (void**)&first, RTLD_DL_LINKMAP) != 0 && first == library->map;
}

static void use_flavour(const MpiLibrary* library) {
  const char* flavour = flavour_of(library);
  if (flavour == NULL) {
    pass_through(library, "it is neither MPICH's, Open MPI's nor the standard's ABI");
    return;
  }
  if (!promote(library)) {
    pass_through(library, "another MPI library comes before it in this process; load only one");
    return;
  }
  char path[PATH_MAX];
  char why[PATH_MAX + 256];
  void* handle = load_flavour(flavour, path);
  if (handle == NULL) {
    const char* error = dlerror();
    snprintf(why, sizeof why, "cannot load %s: %s", path, error != NULL ? error : "not found");
    pass_through(library, why);
    return;
  }
  void (*start)(void* (*)(const char*)) = (void (*)(void* (*)(const char*)))dlsym(handle, "penstock_flavour_start");
  if (start != NULL) start(native_symbol);
  if (start == NULL || !fill_with_flavour(handle)) {
    snprintf(why, sizeof why, "%s lacks functions of this libpenstock.so; install both from one build", path);
    pass_through(library, why);
    return;
  }
  say_state("flavour: file calls go to %s for %s", path, library->map->l_name);
}

// --- The first call. -------------------------------------------------------------------------------------------------

// Recursive, because loading a flavour may run code that calls a file function on this very thread.
static pthread_mutex_t search_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static enum { kUnknown, kSearching, kKnown } search;  ///< guarded by search_mutex

/// Decides for the whole process.  Without any MPI nothing is decided: one may be loaded later.
static void search_for(const void* caller) {
  search = kSearching;
  const MpiLibraries libraries = find_libraries();
  const MpiLibrary* library = library_of(&libraries, caller);
  if (library == NULL) {
    say_state("absent: a file function was called, but no MPI library is in this process");
    search = kUnknown;
    return;
  }
  chosen_handle = library->handle;
  only_chosen_handle = libraries.count > 1;
  if (is_set("PENSTOCK_BYPASS")) {
    fill_with_native();
    say_state("bypass: file calls go to %s because PENSTOCK_BYPASS is set", library->map->l_name);
  } else {
    use_flavour(library);
  }
  search = kKnown;
}

/// The function behind a slot that was not filled when it was called.
static FileFunction function_for(int slot, const void* caller) {
  const int error = errno;
  FileFunction function;
  pthread_mutex_lock(&search_mutex);
  const bool called_while_searching = search == kSearching;
  if (search == kUnknown) search_for(caller);
  if (called_while_searching)
    function = native_function(slot);
  else
    function = search == kKnown ? atomic_load_explicit(&slots[slot], memory_order_acquire) : missing_function(slot);
  pthread_mutex_unlock(&search_mutex);
  dlerror();  // ours, not the program's
  errno = error;
  return function;
}
