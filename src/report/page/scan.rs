//! Reads the page as a browser would, strictly: what is not a tag of the template is an error.

use std::collections::BTreeSet;

/// Tags that the template has.
const TAGS: &[&str] = &[
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "a",
    "header",
    "b",
    "strong",
    "ol",
    "pre",
    "nav",
    "ul",
    "li",
    "p",
    "main",
    "section",
    "svg",
    "circle",
    "path",
    "rect",
    "line",
    "g",
    "text",
    "desc",
    "div",
    "h1",
    "h2",
    "h3",
    "span",
    "em",
    "time",
    "dl",
    "dt",
    "dd",
    "small",
    "figure",
    "figcaption",
    "code",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "article",
    "footer",
];

/// Attributes that the template has.
const ATTRIBUTES: &[&str] = &[
    "lang",
    "charset",
    "name",
    "content",
    "rel",
    "type",
    "href",
    "class",
    "id",
    "aria-label",
    "aria-labelledby",
    "aria-describedby",
    "aria-hidden",
    "focusable",
    "role",
    "tabindex",
    "viewBox",
    "cx",
    "cy",
    "r",
    "d",
    "x",
    "y",
    "x1",
    "x2",
    "y1",
    "y2",
    "width",
    "height",
    "rx",
    "transform",
    "datetime",
    "scope",
    "start",
];

/// What a page consists of.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// Tags in order, with `/` before those that close.
    pub(super) tags: Vec<String>,
    /// Text between tags, references resolved.
    pub(super) text: String,
    /// Values of `href`.
    pub(super) links: Vec<String>,
    /// Values of `id`.
    pub(super) ids: Vec<String>,
}

impl Scanned {
    /// How many tags of a name open.
    pub(super) fn count(&self, tag: &str) -> usize {
        self.tags.iter().filter(|name| *name == tag).count()
    }
}

/// Reads a page; panics at what does not belong.
pub(super) fn scan(page: &str) -> Scanned {
    let mut scanned = Scanned::default();
    let mut open: Vec<String> = Vec::new();
    let mut rest = page
        .strip_prefix("<!doctype html>\n")
        .expect("a document type");
    while let Some((text, after)) = rest.split_once('<') {
        if open.last().is_none_or(|tag| tag != "style") {
            take_text(text, &mut scanned);
        }
        let (tag, after) = after.split_once('>').expect("a tag that ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "what closes was open");
            scanned.tags.push(format!("/{name}"));
        } else {
            take_tag(tag, &mut open, &mut scanned);
        }
        rest = after;
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert_eq!(rest.trim(), "");
    let unique: BTreeSet<&String> = scanned.ids.iter().collect();
    assert_eq!(unique.len(), scanned.ids.len(), "ids repeat");
    scanned
}

fn take_tag(tag: &str, open: &mut Vec<String>, scanned: &mut Scanned) {
    let whole = tag.trim_end_matches('/');
    let (name, mut attributes) = whole.split_once(' ').unwrap_or((whole, ""));
    assert!(TAGS.contains(&name), "<{tag}>");
    while !attributes.trim().is_empty() {
        let (attribute, after) = attributes.trim_start().split_once("=\"").expect("a value");
        let (value, after) = after.split_once('"').expect("a value that ends");
        assert!(ATTRIBUTES.contains(&attribute), "{attribute} in <{tag}>");
        harmless(value);
        match attribute {
            "href" => scanned.links.push(value.to_string()),
            "id" => scanned.ids.push(value.to_string()),
            _ => {}
        }
        attributes = after;
    }
    scanned.tags.push(name.to_string());
    if !tag.ends_with('/') && !matches!(name, "meta" | "link") {
        open.push(name.to_string());
    }
}

fn take_text(text: &str, scanned: &mut Scanned) {
    harmless(text);
    assert!(!text.contains('>'), "{text}");
    for (number, piece) in text.split('&').enumerate() {
        if number > 0 {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            assert!(known.iter().any(|r| piece.starts_with(r)), "&{piece}");
        }
    }
    let plain = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    scanned.text.push_str(&plain);
    scanned.text.push(' ');
}

/// No character in it acts on its neighbours.
fn harmless(text: &str) {
    let acts = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    assert!(!text.contains(acts), "{text:?}");
}
