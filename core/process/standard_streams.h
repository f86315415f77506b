// The one place where text leaves a program for a terminal: standard output and standard error, through which
// nothing passes that a terminal would act upon (terminal_text.h). Whatever is printed may hold texts of
// files or of the user; the program's own commands to a terminal take a way of their own.
#pragma once

#include <cstdio>
#include <string_view>

namespace isochron {

/// From now on `stdout` and `stderr` (C streams: fmt::print, fputs, std::fprintf) write to descriptors 1 and
/// 2 what TerminalEscaper leaves of it. To be called once, at the beginning of main(), by programs that print
/// nothing through std::cout and std::cerr, which write past it. `unread`, if given, is called when standard
/// output is a pipe that nobody reads any more, by whoever writes then: with SIGPIPE ignored, a program may
/// clean up before it ends. Throws kOutOfMemory.
void escape_standard_streams(void (*unread)() = nullptr);

/// errno of the first write to standard output that failed; 0: none, or not escaped.
int standard_output_error();

/// Whether what is written to `file` is shown by a terminal.
bool is_terminal(std::FILE* file);

/// Flushes `file` and writes a command to the terminal behind it, as it is: "\r\033[K".
void write_terminal_command(std::FILE* file, std::string_view command);

}  // namespace isochron
