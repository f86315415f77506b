// EXPECT_ERROR(statement, code, text): the statement throws isochron::Error with that code and `text` in its
// message.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "isochron/core/base/error.h"

#define EXPECT_ERROR(statement, expected_code, text)                                                      \
  do {                                                                                                    \
    try {                                                                                                 \
      static_cast<void>(statement);                                                                       \
      ADD_FAILURE() << "expected an error: " #statement;                                                  \
    } catch (const isochron::Error& expect_error) {                                                       \
      EXPECT_EQ(isochron::error_code_name(expect_error.code()), isochron::error_code_name(expected_code)) \
          << expect_error.what();                                                                         \
      EXPECT_THAT(std::string(expect_error.what()), testing::HasSubstr(text));                            \
    }                                                                                                     \
  } while (false)
