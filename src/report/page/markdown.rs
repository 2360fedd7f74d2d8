//! The runbooks' Markdown as HTML. It knows what these pages use: headings, paragraphs, lists,
//! tables, fenced and inline code, bold, emphasis, links. The tests hold every page to that.

use super::html::Html;
use crate::report::runbooks;

/// Writes a page.
pub(super) fn write(html: &mut Html, text: &str) {
    let mut lines = text.lines().peekable();
    let mut heading = "";
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            html.raw("<pre tabindex=\"0\">");
            for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                html.text(line);
                html.raw("\n");
            }
            html.raw("</pre>\n");
        } else if let Some((tag, title)) = head(line) {
            heading = title;
            html.open(tag, &[]);
            inline(html, title);
            html.close(tag);
            html.raw("\n");
        } else if line.starts_with('|') {
            let mut rows = vec![line];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(row);
            }
            table(html, heading, &rows);
        } else if let Some((list, first)) = item(line) {
            html.open(list, &[]);
            let mut next = Some(first.to_string());
            while let Some(mut words) = next.take() {
                while let Some(more) = lines.next_if(|line| line.starts_with("  ")) {
                    words.push(' ');
                    words.push_str(more.trim());
                }
                html.raw("<li>");
                inline(html, &words);
                html.raw("</li>\n");
                let other = lines.next_if(|line| item(line).is_some_and(|(tag, _)| tag == list));
                next = other.and_then(item).map(|(_, words)| words.to_string());
            }
            html.close(list);
            html.raw("\n");
        } else if !line.trim().is_empty() {
            let mut words = line.to_string();
            while let Some(more) = lines.next_if(|line| is_of_paragraph(line)) {
                words.push(' ');
                words.push_str(more.trim());
            }
            html.raw("<p>");
            inline(html, &words);
            html.raw("</p>\n");
        }
    }
}

fn head(line: &str) -> Option<(&'static str, &str)> {
    let levels = [("# ", "h1"), ("## ", "h2"), ("### ", "h3")];
    let mut found = levels
        .into_iter()
        .filter_map(|(sign, tag)| Some((tag, line.strip_prefix(sign)?)));
    found.next()
}

/// The kind of list that a line's item is of, and the item's first words.
fn item(line: &str) -> Option<(&'static str, &str)> {
    if let Some(words) = line.strip_prefix("- ") {
        return Some(("ul", words));
    }
    let (number, words) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(("ol", words))
}

fn is_of_paragraph(line: &str) -> bool {
    let begins = line.starts_with("```") || line.starts_with('|');
    !line.trim().is_empty() && !begins && head(line).is_none() && item(line).is_none()
}

fn table(html: &mut Html, name: &str, rows: &[&str]) {
    let cells = |row: &str| -> Vec<String> {
        let row = row.trim().trim_start_matches('|').trim_end_matches('|');
        row.split('|').map(|cell| cell.trim().to_string()).collect()
    };
    html.open(
        "div",
        &[
            ("class", "scroll"),
            ("role", "region"),
            ("aria-label", name),
            ("tabindex", "0"),
        ],
    );
    html.raw("<table>");
    let mut rows = rows.iter();
    if let Some(heads) = rows.next() {
        html.raw("<thead><tr>");
        for head in cells(heads) {
            html.raw("<th scope=\"col\">");
            inline(html, &head);
            html.raw("</th>");
        }
        html.raw("</tr></thead>\n");
    }
    html.raw("<tbody>");
    for row in rows.skip(1) {
        html.raw("<tr>");
        for cell in cells(row) {
            html.raw("<td>");
            inline(html, &cell);
            html.raw("</td>");
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table></div>\n");
}

/// Text with code, bold, emphasis and links in it. A sign without its other end is text.
fn inline(html: &mut Html, mut text: &str) {
    while let Some(at) = text.find(['`', '*', '[']) {
        let (before, rest) = text.split_at(at);
        words(html, before);
        text = match span(html, rest) {
            Some(after) => after,
            None => {
                let (sign, after) = rest.split_at(1);
                html.text(sign);
                after
            }
        };
    }
    words(html, text);
}

/// Writes what stands between the sign that `text` begins with and its other end; gives the rest.
fn span<'t>(html: &mut Html, text: &'t str) -> Option<&'t str> {
    if let Some(rest) = text.strip_prefix('`') {
        let (code, after) = rest.split_once('`')?;
        html.leaf("code", &[], code);
        return Some(after);
    }
    for (sign, tag) in [("**", "strong"), ("*", "em")] {
        if let Some(rest) = text.strip_prefix(sign) {
            let (inside, after) = rest.split_once(sign)?;
            html.open(tag, &[]);
            inline(html, inside);
            html.close(tag);
            return Some(after);
        }
    }
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, after) = rest.split_once(')')?;
    link(html, label, target);
    Some(after)
}

/// A link to another page of the runbooks; elsewhere the file's name stands for it, as the agent
/// serves nothing else of the documentation.
fn link(html: &mut Html, label: &str, target: &str) {
    match target.strip_suffix(".md").and_then(runbooks::find) {
        Some(page) => html.leaf("a", &[("href", &page.address())], label),
        None => {
            words(html, label);
            let file = target.trim_start_matches("../");
            if !label.contains(file) {
                html.text(&format!(" ({file})"));
            }
        }
    }
}

/// Text of any length, in pieces that are no longer than `Html` takes at once.
fn words(html: &mut Html, text: &str) {
    for piece in text.split_inclusive(' ') {
        html.text(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        let mut html = Html::new();
        html.part(100_000);
        write(&mut html, text);
        html.into_string()
    }

    #[test]
    fn what_the_pages_use() {
        for (text, want) in [
            ("# A `b`", "<h1>A <code>b</code></h1>"),
            ("## A & B", "<h2>A &amp; B</h2>"),
            ("one\ntwo\n\nthree", "<p>one two</p>\n<p>three</p>"),
            (
                "one\n- a\n  b\n- c",
                "<p>one</p>\n<ul><li>a b</li>\n<li>c</li>\n</ul>",
            ),
            ("1. a\n2. b", "<ol><li>a</li>\n<li>b</li>\n</ol>"),
            ("1. a\n- b", "<ol><li>a</li>\n</ol>\n<ul><li>b</li>\n</ul>"),
            ("1.5 s pass", "<p>1.5 s pass</p>"),
            (
                "```\na  <b>\n# c\n\n- `d`\n```\ne",
                "<pre tabindex=\"0\">a  &lt;b&gt;\n# c\n\n- `d`\n</pre>\n<p>e</p>",
            ),
            ("**a** *b*", "<p><strong>a</strong> <em>b</em></p>"),
            ("`*.md` 2*3 a[0]", "<p><code>*.md</code> 2*3 a[0]</p>"),
            (
                "[up](SelvageRailDown.md), [all](README.md)",
                "<p><a href=\"/runbooks/SelvageRailDown\">up</a>, <a href=\"/runbooks\">all</a></p>",
            ),
            ("[docs/tls.md](../tls.md)", "<p>docs/tls.md</p>"),
            ("[TLS](../tls.md)", "<p>TLS (tls.md)</p>"),
            ("[x](javascript:y)", "<p>x (javascript:y)</p>"),
            ("<script>", "<p>&lt;script&gt;</p>"),
            ("```\nno end", "<pre tabindex=\"0\">no end\n</pre>"),
        ] {
            assert_eq!(rendered(text).trim_end(), want, "{text}");
        }
        assert_eq!(
            rendered("## T\n| a | b |\n|---|---|\n| `c` | d |").replace('\n', ""),
            "<h2>T</h2><div class=\"scroll\" role=\"region\" aria-label=\"T\" tabindex=\"0\"><table>\
             <thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead>\
             <tbody><tr><td><code>c</code></td><td>d</td></tr></tbody></table></div>"
        );
    }
}
