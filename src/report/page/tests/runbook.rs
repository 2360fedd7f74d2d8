//! Every runbook as a page.

use super::super::runbook as encode;
use super::super::scan::scan;
use crate::report::runbooks::{self, RUNBOOKS, Runbook};

fn all() -> Vec<Runbook> {
    let names = RUNBOOKS.iter().map(|page| page.name);
    names
        .chain([""])
        .map(|name| runbooks::find(name).unwrap())
        .collect()
}

/// Lines outside fenced code, without inline code.
fn prose(text: &str) -> String {
    let outside: Vec<&str> = text.split("```").step_by(2).collect();
    let outside = outside.join(" ");
    outside.split('`').step_by(2).collect()
}

fn without(html: &str, begin: &str, end: &str) -> String {
    let mut pieces = html.split(begin);
    let mut left = pieces.next().unwrap().to_string();
    for piece in pieces {
        left.push_str(piece.split_once(end).unwrap().1);
    }
    left
}

#[test]
fn every_page_renders_without_a_sign_left() {
    for page in all() {
        let html = encode(&page);
        let scanned = scan(&html);
        let name = page.title();
        // What is code is shown as it is; outside it no sign of Markdown is left.
        let (_, main) = html.split_once("<main").unwrap();
        let rest = without(&without(main, "<pre", "</pre>"), "<code", "</code>");
        for sign in ["`", "](", "*", "|", ">#", ">- ", "\n#", "\n- "] {
            assert!(!rest.contains(sign), "{name}: {sign} in {rest}");
        }
        assert!(!main.contains("```"), "{name}");
        let dots = |text: &str| text.matches('…').count();
        assert_eq!(dots(&html), dots(page.text), "{name}: something was cut");
        // Every heading, list, table and fence is one.
        let source = page.text;
        let lines = |sign: &str| source.lines().filter(|line| line.starts_with(sign)).count();
        let mut heads = 0;
        let mut fenced = false;
        for line in source.lines() {
            fenced ^= line.starts_with("```");
            heads += usize::from(!fenced && line.starts_with("## "));
        }
        assert_eq!(scanned.count("h1"), 1, "{name}");
        assert_eq!(scanned.count("h2"), heads, "{name}");
        assert_eq!(scanned.count("pre") * 2, lines("```"), "{name}");
        assert_eq!(scanned.count("table"), lines("|---"), "{name}");
        let rows = lines("|") - lines("|---");
        assert_eq!(scanned.count("tr"), rows, "{name}");
        let cells = scanned.count("td") + scanned.count("th");
        let bars: usize = source
            .lines()
            .filter(|line| line.starts_with('|') && !line.starts_with("|---"))
            .map(|line| line.matches('|').count() - 1)
            .sum();
        assert_eq!(cells, bars, "{name}: cells");
        let told = prose(source);
        let words = told.split_whitespace();
        for word in words.filter(|word| word.bytes().all(|b| b.is_ascii_alphabetic())) {
            assert!(scanned.text.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn links_lead_to_pages() {
    for page in all() {
        let scanned = scan(&encode(&page));
        let name = page.title();
        let linked = prose(page.text)
            .split("](")
            .skip(1)
            .filter(|target| !target.starts_with("../"))
            .count();
        let mut pages = 0;
        for link in &scanned.links {
            match link.strip_prefix("/runbooks/") {
                Some(file) => {
                    assert!(runbooks::at(link).is_some(), "{name}: {link}");
                    pages += usize::from(!file.ends_with(".md"));
                }
                None => assert!(
                    ["/", "/runbooks", "#main"].contains(&link.as_str())
                        || link.starts_with("data:"),
                    "{name}: {link}"
                ),
            }
        }
        let to_index = scanned.links.iter().filter(|l| *l == "/runbooks").count();
        let to_index = to_index - usize::from(!page.is_index());
        assert_eq!(pages + to_index, linked, "{name}");
    }
    let index = scan(&encode(&runbooks::find("").unwrap()));
    for page in RUNBOOKS {
        let address = format!("/runbooks/{}", page.name);
        assert!(index.links.contains(&address), "{address}");
    }
}
