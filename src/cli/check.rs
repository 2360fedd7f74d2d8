//! `selvage check`: prints a report and derives the exit status from its verdict.

use crate::report::text::{self, Style};
use crate::report::{Report, State, json};
use std::io::{self, Write};

/// Output format (`-o`), also of `selvage preflight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Text for a terminal of this style.
    Text(Style),
    /// `selvage.dev/report/v1`.
    Json,
}

/// Prints the report and gives the exit status.
pub fn print(report: &Report, output: Output, out: &mut impl Write) -> io::Result<u8> {
    let text = match output {
        Output::Text(style) => text::encode(report, style),
        Output::Json => json::encode_pretty(report) + "\n",
    };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(exit_status(report.state))
}

/// Exit status of a verdict: 0 ready, 1 degraded, 2 unready, 3 unknown.
pub fn exit_status(state: State) -> u8 {
    match state {
        State::Ready => 0,
        State::Degraded => 1,
        State::Unready => 2,
        State::Unknown => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{broken, empty};

    #[test]
    fn exit_statuses() {
        let mut report = empty();
        for (state, want) in State::ALL.into_iter().zip([0, 1, 2, 3]) {
            report.state = state;
            let mut out = Vec::new();
            assert_eq!(print(&report, Output::Json, &mut out).unwrap(), want);
        }
    }

    #[test]
    fn both_forms_end_with_a_newline() {
        for output in [Output::Json, Output::Text(Style::default())] {
            let mut out = Vec::new();
            print(&broken(), output, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
            assert_eq!(text.starts_with('{'), output == Output::Json);
        }
    }
}
