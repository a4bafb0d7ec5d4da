//! The socket at which the launcher's standby hears that recording begins.
//!
//! Its name is in Linux's abstract name space, so that no file is left whatever ends first. Nobody
//! waits for an answer: a standby that is gone is not missed.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Separates the names of several sockets.
const SEPARATOR: u8 = b':';

/// Launchers that may follow each other in one process.
const MOST_IN_ONE_PROCESS: u32 = 16;

/// A name for the socket of this process, and the socket.
pub fn bind() -> io::Result<(String, UnixDatagram)> {
    let user = std::fs::metadata("/proc/self")?.uid();
    let pid = std::process::id();
    let start = super::look_at(pid).map_or(0, |seen| seen.start);
    let mut refusal = ErrorKind::AddrInUse.into();
    // A launcher that starts another one in its place has a standby under the first name.
    for number in 0..MOST_IN_ONE_PROCESS {
        let name = format!("mpisee-begin-{user}-{pid}-{start}-{number}");
        match UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?) {
            Ok(socket) => {
                socket.set_nonblocking(true)?;
                return Ok((name, socket));
            }
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// The names of the sockets of a launcher and of those around it.
pub fn join(own: &str, outer: Option<&OsStr>) -> OsString {
    let mut names = OsString::from(own);
    if let Some(outer) = outer {
        names.push(OsStr::from_bytes(&[SEPARATOR]));
        names.push(outer);
    }
    names
}

/// Returns whether a name is one of those that were joined.
pub fn is_among(name: &str, names: &[u8]) -> bool {
    each(names).any(|it| it == name.as_bytes())
}

fn each(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    names.split(|&byte| byte == SEPARATOR)
}

/// Tells the standbys at the sockets of those names that they need not say anything.
pub fn notify(names: &OsStr) {
    let send = |name: &[u8]| {
        let address = SocketAddr::from_abstract_name(name)?;
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(b"b", &address)
    };
    for name in each(names.as_bytes()) {
        let _: io::Result<usize> = send(name);
    }
}

/// Returns whether somebody listens at the first of those names. The standby ends once it is
/// notified.
pub fn is_listened_to(names: &OsStr) -> bool {
    let connect = |name: &[u8]| {
        let address = SocketAddr::from_abstract_name(name)?;
        UnixDatagram::unbound()?.connect_addr(&address)
    };
    each(names.as_bytes()).next().is_some_and(|name| connect(name).is_ok())
}

/// Returns whether anybody notified the socket.
pub fn is_notified(socket: &UnixDatagram) -> bool {
    socket.recv(&mut [0]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_arrives_and_one_to_nobody_does_no_harm() {
        let (name, socket) = bind().unwrap();
        assert!(!is_notified(&socket));
        assert_ne!(bind().unwrap().0, name, "the first one is in use");
        notify(name.as_ref());
        assert!(is_notified(&socket) && !is_notified(&socket));
        assert!(is_listened_to(name.as_ref()));
        drop(socket);
        notify(name.as_ref());
        assert!(!is_listened_to(name.as_ref()));
    }

    #[test]
    fn launchers_within_each_other_are_all_told() {
        let [(outer_name, outer), (inner_name, inner)] = [(); 2].map(|()| bind().unwrap());
        let names = join(&inner_name, Some(outer_name.as_ref()));
        assert!(is_among(&outer_name, names.as_bytes()) && is_among(&inner_name, names.as_bytes()));
        assert!(!is_among("mpisee-begin", names.as_bytes()));
        notify(&names);
        assert!(is_notified(&outer) && is_notified(&inner));
    }
}
