//! The job's master: whether its name resolves and its host answers.

use crate::observe::{Attempt, Fault, MasterFacts, Reading};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Delay between two attempts to resolve: a headless Service publishes names as its pods appear.
const RETRY: Duration = Duration::from_millis(500);

/// Addresses of one name that are tried at most.
const MAX_ADDRESSES: usize = 8;

/// Shortest timeout of one connection attempt.
const LEAST: Duration = Duration::from_millis(200);

/// Resolves and connects within one `timeout`. Without a `port` nothing is connected to. The resolver
/// may exceed the timeout: call this on a separate thread.
pub(crate) fn probe(name: &str, port: Option<u16>, timeout: Duration) -> MasterFacts {
    let start = now();
    let addresses = resolve(name, timeout);
    let left = timeout.saturating_sub(start.elapsed());
    let connection = match (addresses.value(), port) {
        (Some(known), Some(port)) => connect(known, port, left),
        _ => Attempt::NotTried,
    };
    MasterFacts {
        addresses,
        connection,
    }
}

/// Resolves a name, retrying for as long as `timeout` lasts.
fn resolve(name: &str, timeout: Duration) -> Reading<Vec<IpAddr>> {
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
        if start.elapsed() + RETRY >= timeout {
            return Reading::Failed(Fault::other(detail));
        }
        std::thread::sleep(RETRY);
    }
}

/// Connects to the first address that accepts, and closes the connection at once. A refusal by any
/// address outweighs silence of the others.
fn connect(addresses: &[IpAddr], port: u16, timeout: Duration) -> Attempt {
    let start = now();
    let mut outcome = Attempt::NotTried;
    for (address, left) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let each = timeout.saturating_sub(start.elapsed()) / left;
        let target = SocketAddr::new(*address, port);
        let this = match TcpStream::connect_timeout(&target, each.max(LEAST)) {
            Ok(_) => return Attempt::Connected,
            Err(error) => match error.kind() {
                ErrorKind::ConnectionRefused => Attempt::Refused,
                ErrorKind::TimedOut => Attempt::TimedOut,
                _ => Attempt::Failed(format!("{target}: {error}")),
            },
        };
        if outcome == Attempt::NotTried || this == Attempt::Refused {
            outcome = this;
        }
    }
    outcome
}

#[expect(clippy::disallowed_methods, reason = "bounds the retries")]
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
        assert_eq!(connect(&[local], port, SHORT), Attempt::Connected);
        drop(listener);
        assert_eq!(connect(&[local], port, SHORT), Attempt::Refused);
        assert_eq!(connect(&[], port, SHORT), Attempt::NotTried);
        let got = probe("127.0.0.1", Some(port), SHORT);
        assert_eq!(got.connection, Attempt::Refused);
        assert_eq!(got.addresses, Reading::Value(vec![local]));
        let got = probe("::1", None, SHORT);
        assert_eq!(got.connection, Attempt::NotTried);
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
