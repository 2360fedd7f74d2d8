//! The one thing that is read out of a certificate here: until when it is valid.

use x509_cert::Certificate;
use x509_cert::der::Decode;

/// End of validity in seconds of Unix time; `None` where the bytes are not a certificate of RFC 5280.
pub(super) fn not_after(der: &[u8]) -> Option<i64> {
    let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
    i64::try_from(validity.not_after.to_unix_duration().as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn times() {
        // Two digits of a year end with 2049.
        for (year, month, day, want) in [
            (1970, 1, 1, Some(0)),
            (2049, 12, 31, Some(2_524_521_600)),
            (2050, 1, 1, Some(2_524_608_000)),
            (9999, 12, 31, Some(253_402_214_400)),
        ] {
            let mut params = CertificateParams::default();
            params.not_after = date_time_ymd(year, month, day);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let der = certificate.der();
            assert_eq!(not_after(der), want, "{year}");
            assert_eq!(not_after(&der[..der.len() - 1]), None, "cut");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(0u8..255, 0..80)) {
            let _ = not_after(&bytes);
        }
    }
}
