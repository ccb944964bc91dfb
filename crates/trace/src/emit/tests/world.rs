//! The environment of an event: its record, its context and the memory that its pointers refer to.
//! Also contains a random number generator.

/// Address of the kernel memory that pointers of a record can refer to.
pub(super) const KERNEL: u64 = 0x5000_0000_0000;
/// Address of the process's memory.
pub(super) const USER: u64 = 0x6000_0000_0000;

#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) record: Vec<u8>,
    /// The packet. The record then holds the kernel's metadata (`struct __sk_buff`).
    pub(super) packet: Option<Vec<u8>>,
    /// The packet including its Ethernet header.
    pub(super) whole: Vec<u8>,
    pub(super) pid: u32,
    pub(super) tgid: u32,
    pub(super) cpu: u32,
    pub(super) time: u64,
    /// Name of the thread, which always ends with a NUL, as in the kernel.
    pub(super) comm: [u8; 16],
    /// Time since the first event of the pair.
    pub(super) latency: u64,
    /// Result of `bpf_get_current_cgroup_id`.
    pub(super) cgroup: u64,
    /// Address of the kernel's task structure.
    pub(super) thread: u64,
    /// Result of `bpf_get_stack`; `None` is an error.
    pub(super) stack: Option<Vec<u64>>,
    /// Memory at [`KERNEL`].
    pub(super) kernel: Vec<u8>,
    /// Memory at [`USER`].
    pub(super) user: Vec<u8>,
}

impl World {
    /// Reads a byte of the memory that contains the record. As in the kernel, memory continues past
    /// the end of the record with unrelated bytes.
    pub(super) fn record_byte(&self, at: u64) -> u8 {
        let inside = usize::try_from(at).ok().and_then(|at| self.record.get(at));
        inside.copied().unwrap_or((at % 3) as u8 + b'x')
    }

    /// Reads a byte of the memory that a pointer refers to.
    pub(super) fn memory_byte(&self, address: u64, user: bool) -> Option<u8> {
        let (start, bytes) = if user {
            (USER, &self.user)
        } else {
            (KERNEL, &self.kernel)
        };
        let at = usize::try_from(address.checked_sub(start)?).ok()?;
        bytes.get(at).copied()
    }
}

/// A pseudorandom number generator (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below the limit, which must not be 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns true with a probability of 1 in `many`.
    pub(super) fn once_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// Returns a number that is small, an edge case or arbitrary.
    pub(super) fn number(&mut self) -> u64 {
        const EDGES: [u64; 12] = [
            0,
            1,
            2,
            3,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            i64::MAX.cast_unsigned(),
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        match self.below(4) {
            0 => self.below(20),
            1 => self.one_of(&EDGES),
            2 => self.next() >> self.below(64),
            _ => (1_u64 << self.below(64))
                .wrapping_add(self.below(3))
                .wrapping_sub(1),
        }
    }
}
