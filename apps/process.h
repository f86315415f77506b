// The command as a process: how it prints, and how it ends if no exception can be thrown, that is, because of
// a signal or because a library runs out of memory.
#pragma once

namespace isochron::apps {

/// Call this first in main(). From then on:
/// - Printed text is escaped for terminals (core/process/standard_streams.h).
/// - A write beyond the limit of a file's size (SIGXFSZ) or to a closed pipe (SIGPIPE) fails and is handled
///   like other errors. If standard output is that pipe, the process removes its temporary files and ends
///   with status 141, the convention of shells.
/// - SIGINT, SIGTERM and SIGHUP remove temporary files (core/files/leftovers.h) and end the process with 128
///   plus the signal's number, unless a loop waits for them (core/process/stop_signals.h). An ignored signal
///   stays ignored.
/// - If memory runs out, the process ends with status 4 and a message. This covers uncaught exceptions, and
///   libraries that call exit() or access a null pointer after a failed allocation.
void begin_process();

/// Call this last in main(): from now on, only the command itself calls exit().
void end_process();

}  // namespace isochron::apps
