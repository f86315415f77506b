"""Faults in products of bf16, which only some processors have: a part of mutants_list.py."""

PAIRS = "backends/cpu/attention/attention_pairs.cc"
# Each row: a name, the file, the text, what takes its place, the tests that find it, the processor's flag.
ROWS = [
    ("last-tile-of-the-next-columns", "backends/cpu/common/bf16_tiles.cc", "multiply_tile<kSums + 3, kA + 1, kB + 1>();",
     "multiply_tile<kSums + 3, kA + 1, kB>();", "Bf16Tiles.*", "amx_bf16"),
    ("outer-depth-forgotten", "backends/cpu/common/bf16_tiles.cc", "p.a.data + row * p.a.row + o * p.a.outer;",
     "p.a.data + row * p.a.row;", "Bf16Tiles.*", "amx_bf16"),
    ("depth-filled-up-with-anything", "backends/cpu/common/block_products-inl.h",
     "    std::fill_n(to + rows * columns, (whole - rows) * columns, bfloat16());\n", "", "HalfRecurrent*", "amx_bf16"),
    ("squares-changed-over-within-blocks", "backends/cpu/common/block_products-inl.h",
     "_mm512_shuffle_i32x4(lower, next_lower, 0xDD)", "_mm512_shuffle_i32x4(lower, next_lower, 0x88)", "HalfAttention.*",
     "avx512_bf16"),
    ("late-keys-weigh", PAIRS, "rows[r] = j + r < seen ?", "rows[r] = j + r < kBlock ?", "HalfAttention.*", "avx512_bf16"),
    ("hidden-keys-have-gradients", PAIRS, "beyond ? kBlock : b.first_query(j + r)", "b.first_query(j + r)",
     "HalfAttention.*", "avx512_bf16"),
    ("sums-kept-at-an-old-scale", PAIRS, "column > 0 && c < s.width; ++c", "column < 0 && c < s.width; ++c",
     "HalfAttention.*", "avx512_bf16"),
    ("deltas-beyond-the-queries", PAIRS, "  std::fill(h.deltas + s.queries, h.deltas + sizes.queries, 0.0F);\n", "",
     "HalfAttention.*", "avx512_bf16"),
    ("gradients-of-one-head-alone", PAIRS, "head < (key_head + 1) * share; ++head", "head < key_head * share + 1; ++head",
     "HalfAttention.*", "avx512_bf16"),
]


def faults(mutant):
    return [mutant(name, file, old, new, "ops", tests, needs=needs) for name, file, old, new, tests, needs in ROWS]
