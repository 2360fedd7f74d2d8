//! The job's master: does its name resolve, does the host answer.

use crate::observe::container::{Connection, MasterFacts};
use crate::observe::reading::{Fault, FaultKind, Reading};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Between two attempts to resolve: a headless service's names appear with their pods.
const AGAIN: Duration = Duration::from_millis(500);

/// Most addresses of one name tried.
const MAX_ADDRESSES: usize = 16;

/// Least time given to one connection.
const LEAST: Duration = Duration::from_millis(200);

/// Resolves a name, again and again for as long as `patience` lasts. The resolver itself may take
/// longer: ask it on a thread of its own.
pub fn resolve(name: &str, patience: Duration) -> Reading<Vec<IpAddr>> {
    let start = now();
    loop {
        let detail = match (name, 0).to_socket_addrs() {
            Ok(found) => {
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.dedup();
                addresses.truncate(MAX_ADDRESSES);
                if !addresses.is_empty() {
                    return Reading::Value(addresses);
                }
                "the name has no address".to_string()
            }
            Err(error) => error.to_string(),
        };
        if start.elapsed() + AGAIN >= patience {
            return Reading::Failed(Fault {
                kind: FaultKind::Other,
                detail,
            });
        }
        std::thread::sleep(AGAIN);
    }
}

/// Connects to the first address that answers, and closes the connection without a word.
pub fn connect(addresses: &[IpAddr], port: u16, patience: Duration) -> Connection {
    let start = now();
    let mut outcome = Connection::NotTried;
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let each = patience.saturating_sub(start.elapsed()) / left.max(1);
        left = left.saturating_sub(1);
        let target = SocketAddr::new(*address, port);
        let error = match TcpStream::connect_timeout(&target, each.max(LEAST)) {
            Ok(_) => return Connection::Connected,
            Err(error) => error,
        };
        let this = match error.kind() {
            io::ErrorKind::ConnectionRefused => Connection::Refused,
            io::ErrorKind::TimedOut => Connection::TimedOut,
            _ => Connection::Failed(format!("{target}: {error}")),
        };
        // An answer says more than silence, whichever address it comes from.
        if outcome == Connection::NotTried || this == Connection::Refused {
            outcome = this;
        }
    }
    outcome
}

/// Both, within one `patience`, each told as soon as it is known: first the addresses, with a
/// connection that had no answer yet, then what became of it. `port`: none where none is told, or
/// nothing is to be connected to.
pub fn ask(name: &str, port: Option<u16>, patience: Duration, mut tell: impl FnMut(MasterFacts)) {
    let start = now();
    let addresses = resolve(name, patience);
    let (Reading::Value(known), Some(port)) = (&addresses, port) else {
        tell(MasterFacts {
            addresses,
            connection: Connection::NotTried,
        });
        return;
    };
    tell(MasterFacts {
        addresses: addresses.clone(),
        connection: Connection::TimedOut,
    });
    let connection = connect(known, port, patience.saturating_sub(start.elapsed()));
    tell(MasterFacts {
        addresses,
        connection,
    });
}

#[expect(clippy::disallowed_methods, reason = "how long to go on asking")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const SHORT: Duration = Duration::from_millis(300);

    #[test]
    fn who_listens_and_who_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(connect(&[local], port, SHORT), Connection::Connected);
        drop(listener);
        assert_eq!(connect(&[local], port, SHORT), Connection::Refused);
        assert_eq!(connect(&[], port, SHORT), Connection::NotTried);
        let all = |name: &str, port: Option<u16>| {
            let mut told = Vec::new();
            ask(name, port, SHORT, |facts| told.push(facts));
            told
        };
        let got = all("127.0.0.1", Some(port));
        // The addresses are told before anything is connected to.
        let connections: Vec<_> = got.iter().map(|facts| &facts.connection).collect();
        assert_eq!(connections, [&Connection::TimedOut, &Connection::Refused]);
        for facts in got {
            assert_eq!(facts.addresses, Reading::Value(vec![local]));
        }
        let got = all("::1", None);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].connection, Connection::NotTried);
    }

    #[test]
    fn a_name_that_cannot_be() {
        for name in ["", "no such name", "x..y"] {
            assert!(
                matches!(resolve(name, SHORT), Reading::Failed(_)),
                "{name:?}"
            );
        }
    }
}
