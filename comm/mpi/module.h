// What stands between the program and a module that speaks to one MPI library. The program is never linked
// with MPI, as each implementation has a binary interface of its own and a process without a launcher needs
// none: launch.h loads the module of the launcher that started it.
#pragma once

#include <cstddef>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

/// The number in the name changes with Communicator, so that a module of another version isn't taken.
inline constexpr const char* kOpenMpiFunction = "isochron_open_mpi_3";

/// Starts MPI (MPI_Init_thread with MPI_THREAD_SERIALIZED) and opens a communicator of all ranks, which the
/// caller deletes on the thread that opened it. Once a process: kCommunication where MPI has been started
/// before. Between, any thread may call it, one at a time.
///
/// A communicator that is deleted ends MPI, which waits for the other ranks to do the same. After an error of
/// MPI's, or while an exception unwinds that thread, it ends all ranks instead, as `abort` does: the others
/// might wait for a call that never comes.
using OpenMpiFunction = Communicator*();

/// Writes the name and version of the MPI library, as Communicator::description has them, with a 0 at the
/// end; cut where it doesn't fit into `size`, which is at least 1. Doesn't start MPI.
inline constexpr const char* kMpiVersionFunction = "isochron_mpi_version_1";
using MpiVersionFunction = void(char* text, size_t size);

}  // namespace isochron::comm
