// The interface between the program and a module that uses one MPI library. The program is never linked with
// MPI, because each implementation has its own binary interface and a process without a launcher needs none.
// launch.h loads the module for the launcher that started the process.
#pragma once

#include <cstddef>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

/// The number in the name changes with Communicator, so that a module of another version isn't accepted.
inline constexpr const char* kOpenMpiFunction = "isochron_open_mpi_3";

/// Starts MPI (MPI_Init_thread with MPI_THREAD_SERIALIZED) and opens a communicator of all ranks, which the
/// caller deletes on the thread that opened it. May be called once per process: throws kCommunication if MPI
/// has been started before. Until the communicator is deleted, any thread may call it, one at a time.
///
/// Deleting the communicator ends MPI, which waits for the other ranks to do the same. After an MPI error, or
/// while an exception unwinds that thread, it ends all ranks instead, as `abort` does, because the others
/// might wait for a call that never comes.
using OpenMpiFunction = Communicator*();

/// Writes the name and version of the MPI library, as in Communicator::description, with a terminating 0. The
/// text is cut if it doesn't fit into `size`, which is at least 1. Doesn't start MPI.
inline constexpr const char* kMpiVersionFunction = "isochron_mpi_version_1";
using MpiVersionFunction = void(char* text, size_t size);

}  // namespace isochron::comm
