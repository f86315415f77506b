// CRC-32C (Castagnoli), the checksum of records, event files and checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isochron {

/// The CRC-32C of `bytes`, as defined in RFC 3720 (appendix B.4). `before` is the CRC of the preceding bytes:
/// crc32c(b, crc32c(a)) is the checksum of a and b together.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

/// `crc` in the form that TFRecord files store, so that a checksum of bytes that contain checksums remains
/// reliable.
constexpr uint32_t masked_crc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t masked_crc32c(std::span<const std::byte> bytes) { return masked_crc32c(crc32c(bytes)); }

}  // namespace isochron
