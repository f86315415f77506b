#include "isochron/core/process/stop_signals.h"

#include <gmock/gmock.h>

#include <csignal>

#include "isochron/core/base/clock.h"

namespace isochron {
namespace {

void wait_ns(int64_t ns) {
  for (const int64_t end = now_ns() + ns; now_ns() < end;) continue;
}

TEST(StopSignals, AnEchoIsTheSameRequest) {
  const StopSignals signals;
  EXPECT_EQ(StopSignals::pending(), 0);
  std::raise(SIGTERM);
  EXPECT_EQ(StopSignals::pending(), SIGTERM);
  std::raise(SIGTERM);  // as `timeout` sends it, to the process and to its group
  std::raise(SIGINT);
  EXPECT_EQ(StopSignals::pending(), SIGTERM) << "the first one's";
  StopSignals::answer();
}

TEST(StopSignalsDeathTest, AnotherRequestEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGTERM);
        wait_ns(400'000'000);
        std::raise(SIGINT);
        std::exit(0);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignals, AHangupIsARequestUnlessItIsIgnored) {
  const auto handler = std::signal(SIGHUP, SIG_DFL);  // under nohup it would be ignored from the beginning
  {
    const StopSignals signals;
    std::raise(SIGHUP);
    EXPECT_EQ(StopSignals::pending(), SIGHUP);
    EXPECT_EQ(StopSignals::name(SIGHUP), "SIGHUP");
    StopSignals::answer();
  }
  std::signal(SIGHUP, SIG_IGN);  // as under nohup
  {
    const StopSignals signals;
    std::raise(SIGHUP);
    EXPECT_EQ(StopSignals::pending(), 0);
  }
  std::signal(SIGHUP, handler);
}

TEST(StopSignalsDeathTest, OneThatNobodyAnsweredIsHandledAsBefore) {
  EXPECT_EXIT(
      {
        {
          const StopSignals signals;
          std::raise(SIGTERM);
          if (StopSignals::pending() != SIGTERM) std::exit(1);
        }
        std::exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignals, WhatHandledThemBeforeDoesSoAgain) {
  std::signal(SIGINT, SIG_IGN);
  { const StopSignals signals; }
  std::raise(SIGINT);
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace isochron
