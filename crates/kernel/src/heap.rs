//! Returns unused memory to the system. By default glibc's allocator keeps unused memory: after a
//! burst of groups or one large scrape, the agent would stay at its peak. Other allocators return
//! memory automatically.

/// A buffer of this size or larger is mapped separately and returned as soon as it is freed. The
/// end of the heap is trimmed if at least this much of it is free. Smaller buffers are allocated
/// and freed in each tick.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 1 << 20;

/// Sets the allocator's thresholds to 1 MiB. Must be called before threads start.
pub fn limit_heap() {
    #[cfg(target_env = "gnu")]
    for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        #[allow(unsafe_code, reason = "no crate wraps this C library function")]
        // SAFETY: the call takes no pointer, and an unknown option has no effect.
        unsafe {
            libc::mallopt(option, LARGE_BYTES);
        }
    }
}

/// Returns unused pages within the heap to the system. This takes a millisecond or two.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "no crate wraps this C library function")]
    // SAFETY: the call takes no pointer, and locks the heap.
    unsafe {
        libc::malloc_trim(0);
    }
}
