//! Bearer tokens, and what is said to those who show nothing.

use super::{Answer, plain, with};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use subtle::{Choice, ConstantTimeEq};

/// Whether a route is for anybody: the kubelet's probes bring neither token nor certificate.
pub(super) fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// The tokens that open the other routes. Not to be printed.
pub(super) struct Tokens(Vec<Vec<u8>>);

impl Tokens {
    /// One a line; empty lines and those that begin with `#` are passed over.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let lines = (1..).zip(lines);
        let tokens = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"));
        // A header could not carry anything else.
        let token = |(number, line): (u32, &[u8])| match line.iter().all(u8::is_ascii_graphic) {
            true => Ok(line.to_vec()),
            false => Err(format!("line {number} is not a token: one word of ASCII")),
        };
        let tokens = tokens.map(token).collect::<Result<Vec<_>, _>>()?;
        match tokens.is_empty() {
            true => Err("no token in it".into()),
            false => Ok(Tokens(tokens)),
        }
    }

    /// Whether the request's one `Authorization: Bearer …` is one of them. All are compared in
    /// constant time: how long it takes reveals no more than the length of a guess.
    pub(super) fn permit(&self, headers: &HeaderMap) -> bool {
        let mut said = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(said), None) = (said.next(), said.next()) else {
            return false;
        };
        let Some(offered) = bearer(said.as_bytes()) else {
            return false;
        };
        let none = Choice::from(0);
        let found = (self.0.iter()).fold(none, |found, known| found | known.ct_eq(offered));
        found.into()
    }
}

/// The token of `Bearer …`; the scheme's case is free (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
    is_bearer.then(|| token.trim_ascii())
}

/// The answer to a request that showed nothing that would do.
pub(super) fn refusal(tokens: bool, certificates: bool) -> Answer {
    let text = match (tokens, certificates) {
        (true, true) => "a bearer token or a client certificate is required\n",
        (true, false) => "a bearer token is required\n",
        // Nothing that a request could add would help.
        (false, _) => return plain(StatusCode::FORBIDDEN, "a client certificate is required\n"),
    };
    let response = plain(StatusCode::UNAUTHORIZED, text);
    let scheme = r#"Bearer realm="selvage""#;
    with(response, header::WWW_AUTHENTICATE, scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn token_files() {
        for (text, want) in [
            (&b"a-token"[..], Ok(&["a-token"][..])),
            (b"one\r\n\n# old: \xff\n  two==\n", Ok(&["one", "two=="])),
            (b"", Err("no token in it")),
            (b"# nothing\n\n", Err("no token in it")),
            (b"one\ntwo words\n", Err("line 2 is not a token")),
            (b"caf\xc3\xa9", Err("line 1 is not a token")),
            (b"a\0b", Err("line 1 is not a token")),
        ] {
            let shown = String::from_utf8_lossy(text);
            match (Tokens::parse(text), want) {
                (Ok(tokens), Ok(want)) => {
                    let want: Vec<&[u8]> = want.iter().map(|token| token.as_bytes()).collect();
                    assert_eq!(tokens.0, want, "{shown}");
                }
                (Err(error), Err(want)) => assert!(error.contains(want), "{shown}: {error}"),
                (Ok(_), Err(want)) => panic!("{shown}: taken, not {want}"),
                (Err(error), Ok(_)) => panic!("{shown}: {error}"),
            }
        }
    }

    #[test]
    fn who_is_let_in() {
        let tokens = Tokens::parse(b"first\nsecond").unwrap();
        for (said, want) in [
            (&["Bearer first"][..], true),
            (&["bearer second"], true),
            (&["BEARER  second "], true),
            (&[], false),
            (&["Bearer "], false),
            (&["Bearer"], false),
            (&["Bearer firs"], false),
            (&["Bearer firstx"], false),
            (&["Bearer First"], false),
            (&["Basic first"], false),
            (&["first"], false),
            (&["Bearer first second"], false),
            (&["Bearer first", "Bearer first"], false),
            (&["Bearer f\u{fc}rst"], false),
        ] {
            let mut headers = HeaderMap::new();
            for said in said {
                let value = HeaderValue::from_bytes(said.as_bytes()).unwrap();
                headers.append(header::AUTHORIZATION, value);
            }
            assert_eq!(tokens.permit(&headers), want, "{said:?}");
        }
    }
}
