//! Raw sockets, to which programs and classic filters are attached.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use super::owned;

/// A socket that receives those packets of an interface that the socket's program accepts.
#[derive(Debug)]
pub(super) struct RawSocket(OwnedFd);

/// One instruction of classic BPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicInsn {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if the condition holds.
    pub jt: u8,
    /// Instructions to skip if the condition does not hold.
    pub jf: u8,
    /// A constant.
    pub k: u32,
}

const ALL: u16 = libc::ETH_P_ALL as u16;

impl RawSocket {
    /// Opens a socket for this interface (`any` for all) with an eBPF program.
    pub(super) fn with_program(interface: &str, program: BorrowedFd<'_>) -> io::Result<Self> {
        let socket = Self::open()?;
        socket.set(libc::SO_ATTACH_BPF, &program.as_raw_fd())?;
        socket.bind(interface)?;
        Ok(socket)
    }

    /// Opens a socket with a classic filter. The socket does not receive packets yet.
    pub(super) fn with_filter(filter: &[ClassicInsn]) -> io::Result<Self> {
        let socket = Self::open()?;
        let mut insns: Vec<libc::sock_filter> = filter
            .iter()
            .map(|insn| libc::sock_filter {
                code: insn.code,
                jt: insn.jt,
                jf: insn.jf,
                k: insn.k,
            })
            .collect();
        let len =
            u16::try_from(insns.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        let program = libc::sock_fprog {
            len,
            filter: insns.as_mut_ptr(),
        };
        socket.set(libc::SO_ATTACH_FILTER, &program)?;
        Ok(socket)
    }

    /// Opens a socket. Without a protocol the socket receives no packets.
    fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        #[allow(unsafe_code, reason = "rustix does not support packet sockets")]
        // SAFETY: the arguments are three numbers, and nothing else owns the descriptor.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        owned(fd).map(Self)
    }

    fn set<T>(&self, option: libc::c_int, value: &T) -> io::Result<()> {
        #[allow(unsafe_code, reason = "rustix does not support these socket options")]
        // SAFETY: the value has the given length, and its pointers remain valid for the call.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const *value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        if set < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Starts to receive the packets of this interface (`any` for all).
    pub(super) fn bind(&self, interface: &str) -> io::Result<()> {
        let index = if interface == "any" {
            0
        } else {
            index(interface)?
        };
        #[allow(unsafe_code, reason = "a struct of numbers")]
        // SAFETY: all zeros are a valid address of this kind.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ALL.to_be();
        address.sll_ifindex = index.cast_signed();
        #[allow(unsafe_code, reason = "rustix does not support packet sockets")]
        // SAFETY: the address has the given length.
        let bound = unsafe {
            libc::bind(
                self.0.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if bound < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Returns the number of accepted packets since the last call, including those dropped because
    /// the socket's buffer was full.
    pub(super) fn packets(&self) -> io::Result<u64> {
        let mut counts = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        #[allow(unsafe_code, reason = "rustix does not support this socket option")]
        // SAFETY: the buffer has the given length.
        let got = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut len,
            )
        };
        if got < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(counts.tp_packets.into())
        }
    }
}

/// Returns the index of a network interface.
pub(super) fn index(name: &str) -> io::Result<u32> {
    let text = CString::new(name)?;
    #[allow(unsafe_code, reason = "rustix does not offer this function")]
    // SAFETY: the string ends with a NUL.
    let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
    if index == 0 {
        let words = format!("there is no network interface {name}");
        return Err(io::Error::new(io::ErrorKind::NotFound, words));
    }
    Ok(index)
}
