//! The runbooks' Markdown as HTML, with the page's own tables, code blocks and links.

use super::text::PageText;
use crate::report::runbooks;
use askama::filters::Escaper;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// HTML of a page. Markup in the source is shown as text.
pub(super) fn render(text: &str) -> String {
    let mut rewriter = Rewriter::default();
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).flat_map(|event| rewriter.on(event));
    let mut out = String::new();
    html::push_html(&mut out, events);
    out
}

#[derive(Default)]
struct Rewriter {
    /// Text of the last heading, which names the tables below it.
    heading: String,
    in_heading: bool,
    /// File of a link that leads out of the runbooks, and the link's text so far.
    outside: Option<(String, String)>,
}

impl Rewriter {
    fn on<'t>(&mut self, event: Event<'t>) -> Vec<Event<'t>> {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                self.heading.clear();
                self.in_heading = true;
                vec![event]
            }
            Event::End(TagEnd::Heading(_)) => {
                self.in_heading = false;
                vec![event]
            }
            Event::Start(Tag::Table(_)) => vec![raw(self.table_region()), event],
            Event::End(TagEnd::Table) => vec![event, raw("</div>\n".into())],
            // Scrolls, so it has to be reachable by keyboard.
            Event::Start(Tag::CodeBlock(_)) => vec![raw("<pre tabindex=\"0\">".into())],
            Event::End(TagEnd::CodeBlock) => vec![raw("</pre>\n".into())],
            Event::Start(Tag::Link { ref dest_url, .. }) => self.link(dest_url),
            Event::End(TagEnd::Link) => match self.outside.take() {
                Some((file, label)) if label.contains(&file) => Vec::new(),
                Some((file, _)) => vec![Event::Text(format!(" ({file})").into())],
                None => vec![event],
            },
            Event::Html(text) | Event::InlineHtml(text) => vec![Event::Text(text)],
            Event::Text(ref text) | Event::Code(ref text) => {
                self.heard(text);
                vec![event]
            }
            event => vec![event],
        }
    }

    fn heard(&mut self, text: &CowStr<'_>) {
        if self.in_heading {
            self.heading.push_str(text);
        }
        if let Some((_, label)) = &mut self.outside {
            label.push_str(text);
        }
    }

    /// A link to another runbook. Elsewhere the file's name stands for it, since the agent serves no
    /// other documentation.
    fn link<'t>(&mut self, target: &str) -> Vec<Event<'t>> {
        let Some(page) = target.strip_suffix(".md").and_then(runbooks::find) else {
            let file = target.trim_start_matches("../").to_string();
            self.outside = Some((file, String::new()));
            return Vec::new();
        };
        vec![raw(format!("<a href=\"{}\">", page.address()))]
    }

    fn table_region(&self) -> String {
        let mut name = String::new();
        // Writing to a String cannot fail.
        let _ = PageText.write_escaped_str(&mut name, &self.heading);
        format!("<div class=\"scroll\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\">")
    }
}

fn raw<'t>(html: String) -> Event<'t> {
    Event::Html(html.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pages_use() {
        for (text, want) in [
            ("# A `b`", "<h1>A <code>b</code></h1>"),
            ("## A & B", "<h2>A &amp; B</h2>"),
            ("one\ntwo\n\nthree", "<p>one\ntwo</p>\n<p>three</p>"),
            (
                "```\na  <b>\n# c\n\n- `d`\n```\ne",
                "<pre tabindex=\"0\">a  &lt;b&gt;\n# c\n\n- `d`\n</pre>\n<p>e</p>",
            ),
            ("**a** *b*", "<p><strong>a</strong> <em>b</em></p>"),
            (
                "[up](SelvageRailDown.md), [all](README.md)",
                "<p><a href=\"/runbooks/SelvageRailDown\">up</a>, <a href=\"/runbooks\">all</a></p>",
            ),
            ("[docs/tls.md](../tls.md)", "<p>docs/tls.md</p>"),
            ("[TLS](../tls.md)", "<p>TLS (tls.md)</p>"),
            ("[x](javascript:y)", "<p>x (javascript:y)</p>"),
            ("a <script>", "<p>a &lt;script&gt;</p>"),
            ("<script>", "&lt;script&gt;"),
        ] {
            assert_eq!(render(text).trim_end(), want, "{text}");
        }
        assert_eq!(
            render("## T \"q\"\n| a | b |\n|---|---|\n| `c` | d |").replace('\n', ""),
            "<h2>T \"q\"</h2><div class=\"scroll\" role=\"region\" \
             aria-label=\"T &quot;q&quot;\" tabindex=\"0\"><table>\
             <thead><tr><th>a</th><th>b</th></tr></thead>\
             <tbody><tr><td><code>c</code></td><td>d</td></tr></tbody></table></div>"
        );
    }
}
