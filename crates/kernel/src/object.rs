//! Objects that are not ours.

mod attach;
mod dump;
mod folder;
mod instance;
mod kprobe_event;
mod said;
mod shape;
mod socket;
mod target;

pub use attach::Attachment;
pub use dump::{MapContents, MapEntry};
pub use instance::Printed;
pub(crate) use said::hear;
pub use shape::{Member, Shape};
pub use socket::{ClassicInsn, RawSocket};
pub use target::{NoTarget, Places, SECTIONS, Target};

/// What the names of the functions of system calls begin with.
const SYSCALL_PREFIX: &str = if cfg!(target_arch = "aarch64") {
    "__arm64_sys_"
} else {
    "__x64_sys_"
};
