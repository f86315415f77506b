// Escapes everything on standard output and standard error that a terminal would act upon (terminal_text.h),
// because printed text may come from files or from the user. The program's own commands to a terminal bypass
// this.
#pragma once

#include <cstdio>
#include <string_view>

namespace isochron {

/// From now on `stdout` and `stderr` (C streams: fmt::print, fputs, std::fprintf) pass their text through
/// TerminalEscaper and write it to descriptors 1 and 2. Call it once, at the beginning of main(), in programs
/// that print nothing through std::cout and std::cerr, which bypass it. `unread`, if given, is called on the
/// writing thread when standard output is a pipe that nobody reads any more. A program that ignores SIGPIPE
/// can then clean up before it ends. Throws kOutOfMemory.
void escape_standard_streams(void (*unread)() = nullptr);

/// errno of the first write to standard output that failed; 0: none, or not escaped.
int standard_output_error();

/// Whether `file` is a terminal that understands terminal commands. A terminal with TERM=dumb doesn't.
bool is_terminal(std::FILE* file);

/// The number of columns of the terminal: as reported by the terminal, otherwise from the environment
/// variable COLUMNS, otherwise 80.
int terminal_columns(std::FILE* file);

/// The beginning of a text in UTF-8 that fits into a row of the terminal, so that the row can be rewritten.
/// One column stays free, because some terminals move to the next row as soon as a row is full.
std::string_view row_of(std::FILE* file, std::string_view text);

/// Flushes `file` and then writes a command to the terminal, unescaped: "\r\033[K".
void write_terminal_command(std::FILE* file, std::string_view command);

/// From now on, everything printed goes to standard error, and standard output is for `write_data` alone.
/// Throws kIo.
void keep_standard_output_for_data();

/// Writes data to standard output, unchanged unless standard output is a terminal. Call
/// keep_standard_output_for_data() first. Throws kIo.
void write_data(std::string_view content);

}  // namespace isochron
