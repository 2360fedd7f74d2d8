//! Lines of the log as flat JSON: `{"level":"INFO","msg":"verdict changed","state":"ready","timestamp":"…"}`.

use serde_json::Value;
use std::fmt;
use tracing::{Event, Subscriber};
use tracing_serde::fields::AsMap;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// One object a line, the event's fields alongside its level, message and time.
pub(super) struct FlatJson;

impl<S, N> FormatEvent<S, N> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let fields = serde_json::to_value(event.field_map()).map_err(|_| fmt::Error)?;
        let Value::Object(mut line) = fields else {
            return Err(fmt::Error);
        };
        if let Some(message) = line.remove("message") {
            line.insert("msg".into(), message);
        }
        let level = event.metadata().level().to_string();
        line.insert("level".into(), level.into());
        let time = jiff::Timestamp::now().to_string();
        line.insert("timestamp".into(), time.into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let written = Written::default();
        let writer = written.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .event_format(FlatJson)
            .finish();
        tracing::subscriber::with_default(log, || {
            let reason = "a \"quoted\"\nword";
            tracing::warn!(nodes = 3, ready = false, share = 0.5, reason, of = ?["x"], "it \"broke\"");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        for (name, want) in [
            ("msg", Value::from("it \"broke\"")),
            ("level", "WARN".into()),
            ("nodes", 3.into()),
            ("ready", false.into()),
            ("share", 0.5.into()),
            ("reason", "a \"quoted\"\nword".into()),
            ("of", "[\"x\"]".into()),
        ] {
            assert_eq!(line[name], want, "{text}");
        }
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
}
