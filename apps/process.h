// The command as a process: how it prints, and how it ends where an exception isn't possible: by a signal, or
// by a library that runs out of memory.
#pragma once

namespace isochron::apps {

/// To be called first in main(). From then on:
/// - what is printed is made fit for a terminal (core/process/standard_streams.h);
/// - a write beyond the limit of a file's size (SIGXFSZ) or to a closed pipe (SIGPIPE) fails, so that it is
///   reported and cleaned up after like any other; where standard output is that pipe, the process removes
///   its temporary files and ends with 141, as shells have it;
/// - SIGINT, SIGTERM and SIGHUP, where no loop waits for them (core/process/stop_signals.h), remove temporary
/// files
///   (core/files/leftovers.h) and end the process with 128 and the signal's number; one that is ignored stays
///   so;
/// - a library that calls exit(), or dies of a null pointer where no memory is to be had, and an exception
/// for
///   want of memory that nobody catches end it with 4 and a sentence.
void begin_process();

/// To be called last in main(): what calls exit() from now on is the command itself.
void end_process();

}  // namespace isochron::apps
