// In every test program: neither it nor the commands it runs read or write the user's cache folder.
#include <cstdlib>

namespace {
const int g_no_cache = setenv("ISOCHRON_CACHE", "off", 1);
}  // namespace
