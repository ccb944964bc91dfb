//! Reads the CPU clock of another process.

use std::mem::MaybeUninit;

/// Returns the CPU time of all threads of a process, including ended ones, in nanoseconds; `None`
/// if the process has ended.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let mut clock = MaybeUninit::uninit();
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    #[allow(
        unsafe_code,
        reason = "rustix cannot read the CPU clock of another process"
    )]
    // SAFETY: each call writes its whole result if it returns 0.
    let time = unsafe {
        if libc::clock_getcpuclockid(pid.cast_signed(), clock.as_mut_ptr()) != 0
            || libc::clock_gettime(clock.assume_init(), time.as_mut_ptr()) != 0
        {
            return None;
        }
        time.assume_init()
    };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_cpu_time_is_read_only_for_live_processes() {
        let own = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let before = own();
        let ours = process_cpu_ns(std::process::id()).expect("it runs");
        assert!((before..=own()).contains(&ours), "{before}, {ours}");
        // The kernel does not assign a pid this high.
        assert_eq!(process_cpu_ns(1 << 22), None);
    }
}
