// Whether somebody watches for races of the program's own making: for tests.
#pragma once

namespace penstock {

// Ranks that write the same bytes at the same time race for them, in the memory that a team shares too: that is theirs, and the thread sanitizer tells of it.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kRacesAreTold = true;
#elif defined(__has_feature)
inline constexpr bool kRacesAreTold = __has_feature(thread_sanitizer);
#else
inline constexpr bool kRacesAreTold = false;
#endif

}  // namespace penstock
