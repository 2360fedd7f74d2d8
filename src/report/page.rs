//! The page at `/`. For now it names the verdict and the other addresses.

use super::Report;

/// HTML of the page.
pub fn encode(report: &Report) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>selvage</title></head>\n\
         <body><h1>selvage on {}</h1><p>Fabric: <strong>{}</strong></p>\n\
         <ul><li><a href=\"/metrics\">/metrics</a></li><li><a href=\"/report\">/report</a></li>\
         <li><a href=\"/healthz\">/healthz</a></li><li><a href=\"/readyz\">/readyz</a></li></ul>\n\
         </body></html>\n",
        escape(&report.node),
        report.state.as_str(),
    )
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::empty;

    #[test]
    fn a_node_name_is_no_markup() {
        let mut report = empty();
        report.node = "<script>'\"&".into();
        let page = encode(&report);
        assert!(page.contains("&lt;script&gt;&#39;&quot;&amp;"));
        assert!(!page.contains("<script>"));
    }
}
