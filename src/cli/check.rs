//! `selvage check`: the form of the report, and the exit status of its verdict.

use crate::report::{Report, State, Style, json, text};
use clap::{Args, ValueEnum};

/// Exit statuses by scheme, for `--help`.
pub const EXIT_STATUSES: &str = "\
Exit status, by --exit-codes:
  default, nagios  0 ready or none, 1 degraded (warning), 2 unready (critical), 3 unknown
  npd              0 ready or none, 1 degraded or unready, 2 unknown
  slurm            0 ready or none, 1 every other verdict";

/// How a verdict becomes an exit status.
#[derive(Debug, Clone, Copy, Args)]
pub struct ExitArgs {
    /// Mildest verdict that fails: unready, degraded, unknown (the default)
    #[arg(long, value_name = "VERDICT", default_value = "unknown")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub fail_on: FailOn,
    /// Exit statuses as a caller reads them: default, npd, slurm, nagios
    #[arg(long, value_name = "SCHEME", default_value = "default")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub exit_codes: ExitCodes,
}

/// Which verdicts cause a non-zero exit status. (What documents a variant would be shown as its help.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    // Unready alone, not degraded or unknown.
    Unready,
    // Degraded and unready, not unknown.
    Degraded,
    // Every verdict but ready.
    #[value(alias = "any")]
    Unknown,
}

/// The meaning of exit statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExitCodes {
    // 0 ready, 1 degraded, 2 unready, 3 unknown.
    Default,
    // node-problem-detector's custom plugins: 0 ok, 1 not ok, 2 unknown.
    Npd,
    // 0 or 1.
    Slurm,
    // Nagios plugins: 0 ok, 1 warning, 2 critical, 3 unknown.
    Nagios,
}

impl FailOn {
    /// Exit status of a verdict.
    pub fn exit_status(self, state: State, codes: ExitCodes) -> u8 {
        let fails = match self {
            FailOn::Unknown => !matches!(state, State::Ready | State::NoFabric),
            FailOn::Degraded => matches!(state, State::Degraded | State::Unready),
            FailOn::Unready => state == State::Unready,
        };
        let [degraded, unready, unknown] = match codes {
            ExitCodes::Default | ExitCodes::Nagios => [1, 2, 3],
            ExitCodes::Npd => [1, 1, 2],
            ExitCodes::Slurm => [1, 1, 1],
        };
        match state {
            State::Degraded if fails => degraded,
            State::Unready if fails => unready,
            State::Unknown if fails => unknown,
            _ => 0,
        }
    }
}

/// The report as text of a style, or else as JSON (`selvage.dev/report/v1`).
pub fn encode(report: &Report, style: Option<Style>) -> String {
    match style {
        Some(style) => text::encode(report, style),
        None => json::encode_pretty(report) + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::broken;

    #[test]
    fn exit_statuses() {
        // Of ready, degraded, unready, unknown and none.
        for (fail_on, codes, want) in [
            ("unknown", "default", [0, 1, 2, 3, 0]),
            ("any", "default", [0, 1, 2, 3, 0]),
            ("degraded", "default", [0, 1, 2, 0, 0]),
            ("unready", "default", [0, 0, 2, 0, 0]),
            ("unknown", "nagios", [0, 1, 2, 3, 0]),
            ("degraded", "nagios", [0, 1, 2, 0, 0]),
            ("unready", "nagios", [0, 0, 2, 0, 0]),
            ("unknown", "npd", [0, 1, 1, 2, 0]),
            ("degraded", "npd", [0, 1, 1, 0, 0]),
            ("unready", "npd", [0, 0, 1, 0, 0]),
            ("unknown", "slurm", [0, 1, 1, 1, 0]),
            ("degraded", "slurm", [0, 1, 1, 0, 0]),
            ("unready", "slurm", [0, 0, 1, 0, 0]),
        ] {
            let wanted = FailOn::from_str(fail_on, false).unwrap();
            let scheme = ExitCodes::from_str(codes, false).unwrap();
            let got = State::ALL.map(|state| wanted.exit_status(state, scheme));
            assert_eq!(got, want, "--fail-on {fail_on} --exit-codes {codes}");
        }
    }

    #[test]
    fn both_forms_end_with_a_newline() {
        for output in [None, Some(Style::default())] {
            let text = encode(&broken(), output);
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
            assert_eq!(text.starts_with('{'), output.is_none());
        }
    }
}
