//! How metrics are sent: in the text format, compressed where the scraper takes gzip.

use super::{Answer, respond, with};
use crate::report::{ClusterStatus, Detail, Report, metrics};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The metrics of one report, encoded once for all scrapes that show it.
#[derive(Debug, Default)]
pub struct Rendered(Mutex<(Option<Shown>, String)>);

/// What the text shows: the report by its generation, and what the writer of the Node did.
type Shown = (u64, Option<Arc<ClusterStatus>>);

impl Rendered {
    /// The metrics of a report and of what the writer of the Node did.
    pub fn text(
        &self,
        report: &Report,
        cluster: Option<Arc<ClusterStatus>>,
        detail: Detail,
    ) -> String {
        let shown = Some((report.generation, cluster));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != shown {
            let cluster = shown.as_ref().and_then(|(_, status)| status.as_deref());
            kept.1 = metrics::encode_report(report, cluster, detail);
            kept.0 = shown;
        }
        kept.1.clone()
    }
}

/// Content type of the Prometheus text format.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer to a scrape, of metrics in the text format.
pub fn answer(text: String, asked: &HeaderMap) -> Answer {
    let packed = accepts_gzip(asked).then(|| gzip(text.as_bytes()));
    let answer = |body| {
        let answer = respond(StatusCode::OK, METRICS_TYPE, body);
        with(answer, header::VARY, "accept-encoding")
    };
    match packed {
        Some(Ok(packed)) => with(answer(packed.into()), header::CONTENT_ENCODING, "gzip"),
        _ => answer(text.into()),
    }
}

/// Whether the scraper takes gzip: it is listed, and not with a weight of 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let mut items = lines.flat_map(|line| line.split(','));
    items.any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let refused = |part: &str| {
            let weight = part.strip_prefix("q=").map(str::parse::<f32>);
            matches!(weight, Some(Ok(0.0)))
        };
        let name = parts.next();
        name.is_some_and(|of| of.eq_ignore_ascii_case("gzip")) && !parts.any(refused)
    })
}

fn gzip(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text)?;
    packer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::catalogue::{CATALOGUE, MetricKind};
    use crate::report::testing;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;
    use hyper::header::HeaderName;
    use std::io::Read;

    const TEXT: &str = "# HELP a_total Said \"a\".\n# TYPE a_total counter\na_total{x=\"1\"} 3\n\
                        # HELP b Two.\n# TYPE b gauge\nb 0.5\n";

    fn asked(encoding: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !encoding.is_empty() {
            headers.insert(header::ACCEPT_ENCODING, encoding.parse().unwrap());
        }
        headers
    }

    #[test]
    fn what_scrapers_ask_for() {
        for (encoding, packed) in [
            ("", false),
            ("identity", false),
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzipped", false),
        ] {
            let response = answer(TEXT.into(), &asked(encoding));
            let is = |name: HeaderName, value: &str| {
                response.headers().get(name).is_some_and(|is| is == value)
            };
            assert!(is(header::CONTENT_TYPE, METRICS_TYPE), "{encoding}");
            assert_eq!(is(header::CONTENT_ENCODING, "gzip"), packed, "{encoding}");
        }
    }

    #[test]
    fn each_report_has_its_own_text() {
        let report = |generation| {
            let mut report = testing::empty();
            report.generation = generation;
            Arc::new(report)
        };
        let (first, second) = (report(1), report(2));
        let cluster = Arc::new(ClusterStatus {
            api_up: Some(true),
            ..ClusterStatus::default()
        });
        let rendered = Rendered::default();
        for (report, cluster) in [
            (&first, None),
            (&first, None),
            (&second, None),
            (&second, Some(&cluster)),
            (&second, None),
        ] {
            let detail = Detail::default();
            let text = metrics::encode_report(report, cluster.map(Arc::as_ref), detail);
            assert_eq!(rendered.text(report, cluster.cloned(), detail), text);
        }
    }

    #[tokio::test]
    async fn what_was_packed_is_what_was_said() {
        let response = answer(TEXT.into(), &asked("gzip"));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut text = String::new();
        GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, TEXT);
    }

    /// The names alone say which families are counters.
    #[test]
    fn counters_and_nothing_else_end_in_total() {
        for family in CATALOGUE.iter() {
            let is_counter = family.kind == MetricKind::Counter;
            assert_eq!(
                family.name.ends_with("_total"),
                is_counter,
                "{}",
                family.name
            );
        }
    }
}
