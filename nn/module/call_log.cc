#include "isochron/nn/module/call_log.h"

namespace isochron::nn {
namespace {

thread_local CallLog* t_log = nullptr;

}  // namespace

CallLog::CallLog() : previous_(t_log) { t_log = this; }
CallLog::~CallLog() { t_log = previous_; }
CallLog* CallLog::current() { return t_log; }

}  // namespace isochron::nn
