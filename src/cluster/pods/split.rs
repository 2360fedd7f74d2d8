//! Cuts JSON into its parts while it arrives, so that of a list of pods one pod is held at a time,
//! however long the list: the members of each outermost object, and of the member `items` each
//! element. A stream of objects, as a watch sends it, is cut the same way.

/// A part of a document.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A member of the outermost object, its value as text.
    Member(&'a str, &'a [u8]),
    /// An element of the member `items`.
    Item(&'a [u8]),
    /// A part that is longer than may be held; it is passed over.
    TooLong,
    /// The outermost object ends.
    End,
}

/// What arrives is not JSON, or no objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not JSON as the API server sends it")]
pub struct Broken;

/// Longest part, in bytes. etcd takes objects up to 1.5 MiB.
const LONGEST: usize = 4 << 20;

/// Kept between parts; what a longer one needed is given back.
const KEPT: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The part so far, without white space between its words.
    text: Vec<u8>,
    /// The member's name, once it is read.
    name: Option<String>,
    depth: usize,
    in_items: bool,
    in_string: bool,
    escaped: bool,
    too_long: bool,
}

impl Splitter {
    /// Takes in what has arrived, and tells of each part that is whole.
    ///
    /// # Errors
    /// Nothing that follows can be made out.
    pub fn feed(&mut self, bytes: &[u8], tell: &mut impl FnMut(Part<'_>)) -> Result<(), Broken> {
        for byte in bytes {
            self.take(*byte, tell)?;
        }
        Ok(())
    }

    fn take(&mut self, byte: u8, tell: &mut impl FnMut(Part<'_>)) -> Result<(), Broken> {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            self.push(byte);
            if !self.in_string && self.depth == 1 && self.name.is_none() {
                self.name = Some(self.read_name()?);
            }
            return Ok(());
        }
        let outer = if self.in_items { 2 } else { 1 };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' if self.depth == 0 => self.depth = 1,
            _ if self.depth == 0 => return Err(Broken),
            b'[' if self.depth == 1
                && self.text.is_empty()
                && self.name.as_deref() == Some("items") =>
            {
                self.in_items = true;
                self.depth = 2;
            }
            b'}' | b']' if self.depth == outer => {
                self.end_of_part(tell);
                self.depth -= 1;
                match (byte, self.in_items) {
                    (b']', true) => self.in_items = false,
                    (b'}', false) => tell(Part::End),
                    _ => return Err(Broken),
                }
                if self.depth == 0 {
                    self.name = None;
                }
            }
            b',' if self.depth == outer => {
                self.end_of_part(tell);
                if !self.in_items {
                    self.name = None;
                }
            }
            b':' if self.depth == 1 && self.text.is_empty() => {}
            _ => {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth -= 1,
                    _ => {}
                }
                self.push(byte);
            }
        }
        Ok(())
    }

    fn push(&mut self, byte: u8) {
        if self.text.len() < LONGEST {
            self.text.push(byte);
        } else {
            self.too_long = true;
        }
    }

    fn read_name(&mut self) -> Result<String, Broken> {
        let name = serde_json::from_slice(&self.text).map_err(|_| Broken)?;
        self.text.clear();
        Ok(name)
    }

    fn end_of_part(&mut self, tell: &mut impl FnMut(Part<'_>)) {
        if self.too_long {
            tell(Part::TooLong);
        } else if !self.text.is_empty() {
            match &self.name {
                _ if self.in_items => tell(Part::Item(&self.text)),
                Some(name) => tell(Part::Member(name, &self.text)),
                None => {}
            }
        }
        self.too_long = false;
        self.text.clear();
        self.text.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(text: &[u8], at: usize) -> (Vec<String>, bool) {
        let mut parts = Vec::new();
        let mut splitter = Splitter::default();
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut whole = true;
        for piece in text.chunks(at.max(1)) {
            let fed = splitter.feed(piece, &mut |part| {
                parts.push(match part {
                    Part::Member(name, text) => format!("{name}={}", words(text)),
                    Part::Item(text) => format!("-{}", words(text)),
                    Part::TooLong => "too long".into(),
                    Part::End => ".".into(),
                });
            });
            if fed.is_err() {
                whole = false;
                break;
            }
        }
        (parts, whole)
    }

    #[test]
    fn lists_and_streams_are_cut() {
        let list = br#"{"kind":"PodList","metadata":{"resourceVersion":"7","items":[1]},
            "items":[{"a":"}],\"{"},{"items":[{}]}, 5 ],"x":null}"#;
        let want = [
            r#"kind="PodList""#,
            r#"metadata={"resourceVersion":"7","items":[1]}"#,
            r#"-{"a":"}],\"{"}"#,
            r#"-{"items":[{}]}"#,
            "-5",
            "x=null",
            ".",
        ];
        for at in [1, 2, 3, 7, 1000] {
            assert_eq!(
                cut(list, at),
                (want.map(String::from).to_vec(), true),
                "{at}"
            );
        }
        let watch = b"{\"type\":\"ADDED\",\"object\":{\"b\":[]}}\n{\"type\":\"BOOKMARK\"}\n";
        assert_eq!(
            cut(watch, 5).0,
            [
                "type=\"ADDED\"",
                "object={\"b\":[]}",
                ".",
                "type=\"BOOKMARK\"",
                "."
            ]
        );
        assert_eq!(cut(b"{\"items\":[]}", 1).0, ["."]);
        assert_eq!(cut(b"{\"items\":null}", 1).0, ["items=null", "."]);
        assert_eq!(cut(b"{}{}", 1).0, [".", "."]);
    }

    #[test]
    fn what_is_no_json_is_said_so() {
        for text in [
            "x",
            "<html>",
            "]",
            "[]",
            "{]",
            "{\"items\":[}",
            "}",
            "{\"a\\x\":1}",
        ] {
            assert!(!cut(text.as_bytes(), 1).1, "{text}");
        }
    }

    #[test]
    fn a_part_too_long_is_passed_over_and_the_rest_is_not() {
        let long = "x".repeat(LONGEST);
        let text = format!("{{\"items\":[\"{long}\",1],\"a\":2}}");
        assert_eq!(cut(text.as_bytes(), 4096).0, ["too long", "-1", "a=2", "."]);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same(text in "[\\[\\]{}:,\"\\\\ items1]{0,60}", at in 1usize..9) {
            prop_assert_eq!(cut(text.as_bytes(), at), cut(text.as_bytes(), 1));
        }
    }
}
