//! Memory of this process that nobody uses. The allocator of glibc keeps it, by default: after a
//! burst of groups, or one large scrape, an agent would stay at its peak for as long as it runs. Other
//! allocators give back by themselves.

/// A buffer of this size or more is mapped by itself, and given back as soon as it is free; so is the
/// end of the heap. Smaller ones come and go in each tick.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 1 << 20;

/// Sets what is kept. To be called before threads begin.
pub fn limit_heap() {
    #[cfg(target_env = "gnu")]
    for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        #[allow(
            unsafe_code,
            reason = "a function of the C library that no crate wraps"
        )]
        // SAFETY: it takes no pointer. That it does not know an option does no harm.
        unsafe {
            libc::mallopt(option, LARGE_BYTES);
        }
    }
}

/// Gives the pages within the heap back in which nothing is. Takes a millisecond or two.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    #[allow(
        unsafe_code,
        reason = "a function of the C library that no crate wraps"
    )]
    // SAFETY: it takes no pointer, and locks what it works on.
    unsafe {
        libc::malloc_trim(0);
    }
}
