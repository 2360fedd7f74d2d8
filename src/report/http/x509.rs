//! The one thing that is read out of a certificate here: until when it is valid.

use x509_cert::Certificate;
use x509_cert::der::Decode;

/// End of validity in seconds of Unix time; `None` where the bytes are not a certificate of RFC 5280.
pub(super) fn not_after(der: &[u8]) -> Option<i64> {
    let certificate = Certificate::from_der(der).ok()?;
    let validity = certificate.tbs_certificate.validity;
    i64::try_from(validity.not_after.to_unix_duration().as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(0u8..255, 0..80)) {
            let _ = not_after(&bytes);
        }
    }
}
