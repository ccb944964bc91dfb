//! Counts packets of an interface: a packet socket with a counting program as its filter. The
//! filter accepts no packet, so no packet is copied and the socket stays empty.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

use crate::error::{Context, Error};
use crate::plain::{AttachedProgram, Held, LoadedProgram};

/// The name that stands for all interfaces.
const ANY: &str = "any";

/// The source of packets: one interface of this network namespace, or all interfaces.
#[derive(Debug)]
pub struct PacketSource {
    socket: OwnedFd,
    /// Index of the interface; 0 for all interfaces.
    index: u32,
    has_ethernet: bool,
}

impl PacketSource {
    /// Opens a socket for the interface with this name, or for all interfaces with `any`. The
    /// socket does not receive packets yet. Returns `None` if there is no such interface.
    ///
    /// # Errors
    ///
    /// Fails if the process lacks CAP_NET_RAW, or the kernel does not support packet sockets.
    pub fn open(name: &str) -> Result<Option<Self>, Error> {
        let raw = socket(SocketType::RAW)?;
        if name == ANY {
            // Not all interfaces have an Ethernet header. The packets that the program receives
            // therefore start after that header.
            let socket = socket(SocketType::DGRAM)?;
            return Ok(Some(Self {
                socket,
                index: 0,
                has_ethernet: false,
            }));
        }
        let index = match name_to_index(&raw, name) {
            Ok(index) => index,
            Err(rustix::io::Errno::NODEV | rustix::io::Errno::INVAL) => return Ok(None),
            Err(error) => {
                let error = Err(io::Error::from(error));
                return error.context(format!("looking up the interface {name:?}"));
            }
        };
        let has_ethernet = has_ethernet(&raw, name)?;
        let socket = if has_ethernet {
            raw
        } else {
            socket(SocketType::DGRAM)?
        };
        Ok(Some(Self {
            socket,
            index,
            has_ethernet,
        }))
    }

    /// Returns the names of the interfaces.
    pub fn names() -> Vec<String> {
        let Ok(folder) = std::fs::read_dir("/sys/class/net") else {
            return Vec::new();
        };
        let names = folder.flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Returns whether each packet starts with an Ethernet header. Otherwise packets start with the
    /// network header.
    pub fn has_ethernet(&self) -> bool {
        self.has_ethernet
    }

    /// Sets the program as the socket's filter, and starts to receive packets.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the program.
    pub fn attach(self, program: &LoadedProgram) -> Result<AttachedProgram, Error> {
        set_program(&self.socket, program).context("attaching to a packet socket")?;
        bind(&self.socket, self.index).context("binding a packet socket to its interface")?;
        Ok(AttachedProgram::new(vec![Held::Descriptor {
            _fd: self.socket,
        }]))
    }
}

/// Opens a socket. Without a protocol the socket receives no packets.
fn socket(kind: SocketType) -> Result<OwnedFd, Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let none: Option<Protocol> = None;
    let opened = socket_with(AddressFamily::PACKET, kind, flags, none);
    let words = match opened {
        Err(rustix::io::Errno::PERM) => "opening a packet socket (needs CAP_NET_RAW)",
        Err(rustix::io::Errno::AFNOSUPPORT) => {
            "opening a packet socket (not supported by this kernel: CONFIG_PACKET)"
        }
        _ => "opening a packet socket",
    };
    opened.map_err(io::Error::from).context(words)
}

/// Returns whether packets of the interface start with an Ethernet header, as on Ethernet and
/// loopback interfaces.
fn has_ethernet(socket: &OwnedFd, name: &str) -> Result<bool, Error> {
    #[allow(
        unsafe_code,
        reason = "no safe function returns the type of an interface"
    )]
    // SAFETY: all bytes may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
        *to = from.cast_signed() as libc::c_char;
    }
    #[allow(
        unsafe_code,
        reason = "no safe function returns the type of an interface"
    )]
    // SAFETY: the socket is open, and the request is the structure for this ioctl, with a name that
    // ends with a NUL.
    let result = unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFHWADDR as _,
            &raw mut request,
        )
    };
    if result < 0 {
        let error = Err(io::Error::last_os_error());
        return error.context(format!("reading the type of the interface {name:?}"));
    }
    #[allow(unsafe_code, reason = "a union of C")]
    // SAFETY: this ioctl writes this member.
    let family = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(matches!(family, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK))
}

fn set_program(socket: &OwnedFd, program: &LoadedProgram) -> io::Result<()> {
    let number = program.descriptor();
    let size = size_of_val(&number) as libc::socklen_t;
    #[allow(unsafe_code, reason = "no safe function sets a socket filter")]
    // SAFETY: the option is four bytes that live for the call, and both descriptors are open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_BPF,
            (&raw const number).cast(),
            size,
        )
    };
    checked(result)
}

fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    #[allow(
        unsafe_code,
        reason = "no safe function supports packet socket addresses"
    )]
    // SAFETY: all bytes may be zero.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    #[allow(
        unsafe_code,
        reason = "no safe function supports packet socket addresses"
    )]
    // SAFETY: the address has the given size, and lives for the call.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    checked(result)
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
