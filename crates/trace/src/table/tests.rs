//! Tables whose text is known.

mod rows;

/// xorshift64*: random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number of any length.
    fn number(&mut self) -> u64 {
        let shift = self.next() >> 58;
        self.next() >> shift
    }
}
