//! What an event finds: its record, where it happens, memory behind pointers. And numbers that look
//! random.

/// Memory of the kernel that a pointer of a record can point to.
pub(super) const KERNEL: u64 = 0x5000_0000_0000;
/// Memory of the process.
pub(super) const USER: u64 = 0x6000_0000_0000;

/// One event.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) record: Vec<u8>,
    /// The packet, of which the record is what the kernel knows (`struct __sk_buff`).
    pub(super) packet: Option<Vec<u8>>,
    /// The same from its Ethernet header on.
    pub(super) whole: Vec<u8>,
    pub(super) pid: u32,
    pub(super) tgid: u32,
    pub(super) cpu: u32,
    pub(super) time: u64,
    /// Ends with a NUL, and so does the kernel's.
    pub(super) comm: [u8; 16],
    /// Since the first of two events.
    pub(super) latency: u64,
    /// Of `bpf_get_current_cgroup_id`.
    pub(super) cgroup: u64,
    /// The address of the kernel's record of the thread.
    pub(super) thread: u64,
    /// Of `bpf_get_stack`; none: an error.
    pub(super) stack: Option<Vec<u64>>,
    /// From [`KERNEL`] on.
    pub(super) kernel: Vec<u8>,
    /// From [`USER`] on.
    pub(super) user: Vec<u8>,
}

impl World {
    /// A byte of the memory in which the record lies. Behind the record there is no end of it, as
    /// there is none in the kernel: what stands there belongs to others.
    pub(super) fn near_record(&self, at: u64) -> u8 {
        let inside = usize::try_from(at).ok().and_then(|at| self.record.get(at));
        inside.copied().unwrap_or((at % 3) as u8 + b'x')
    }

    /// A byte behind a pointer.
    pub(super) fn behind_pointer(&self, address: u64, user: bool) -> Option<u8> {
        let (start, bytes) = if user {
            (USER, &self.user)
        } else {
            (KERNEL, &self.kernel)
        };
        let at = usize::try_from(address.checked_sub(start)?).ok()?;
        bytes.get(at).copied()
    }
}

/// Numbers that look random: splitmix64.
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

    /// Below the limit, which is not 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in so many.
    pub(super) fn once_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// A number that is small, at an edge, or anything.
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
