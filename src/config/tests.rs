//! What operators write, and the settings or complaints that come of it.

use super::settings::{defaults, settings};
use super::*;
use crate::settings_macro::Field;
use std::collections::BTreeSet;
use std::path::Path;

/// Command line (in words), environment (`NAME=value` in words) and file in; settings out.
fn loaded(flags: &str, environment: &str, file: &str) -> Result<load::Loaded, Vec<String>> {
    let command = add_agent_args(clap::Command::new("selvage").no_binary_name(true));
    let matches = command
        .try_get_matches_from(flags.split_whitespace())
        .unwrap();
    let environment = environment.split_whitespace().map(|pair| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_string(), value.to_string())
    });
    let file = (!file.is_empty()).then(|| ("s.toml".to_string(), Ok(file.to_string())));
    load::merge(&matches, environment, file)
        .map_err(|complaints| complaints.iter().map(Complaint::to_string).collect())
}

fn build(flags: &str, environment: &str, file: &str) -> Result<Config, Vec<String>> {
    loaded(flags, environment, file).map(|loaded| loaded.config)
}

#[test]
fn nothing_written_gives_the_defaults() {
    let config = build("", "", "").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.agent.listen.to_string(), ":9949");
    assert_eq!(
        config.agent.host_root.join(&config.agent.kmsg),
        Path::new("/dev/kmsg")
    );
    assert_eq!(config.complaints(), []);
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = "[intervals]\nlink = \"2s\"\npci = \"2m\"\ngids = \"2m\"\n";
    let env = "SELVAGE_INTERVALS_LINK=3s SELVAGE_INTERVALS_PCI=3m";
    let config = build("--set intervals.link=4s", env, file).unwrap();
    assert_eq!(config.intervals.link, Span::from_secs(4));
    assert_eq!(config.intervals.pci, Span::from_secs(180));
    assert_eq!(config.intervals.gids, Span::from_secs(120));
    assert_eq!(config.intervals.dcb, Span::from_secs(60));
}

#[test]
fn each_way_of_writing_each_type() {
    let config = build(
        "--listen 127.0.0.1:0 --dry-run --rails-exclude mlx5_an0,eth* --rails-exclude mlx5_9/1 \
         --set agent.kmsg_all_facilities=on --set agent.state_dir= \
         --set hysteresis.flap_count=5 --set policy.expect.rate_gbps=12.5 \
         --set counters.exclude=['a*','b'] --set agent.node_name=5",
        "SELVAGE_COUNTERS_FULL=yes SELVAGE_RAILS_INCLUDE=mlx5_?,ib* SELVAGE_LOG_FORMAT=json \
         SELVAGE_HOST_ROOT=/host",
        "[policy.xid.overrides.79]\naction = \"ignore\"\n",
    )
    .unwrap();
    assert_eq!(config.agent.listen.to_string(), "127.0.0.1:0");
    assert!(config.agent.kmsg_all_facilities && config.cluster.dry_run);
    assert_eq!(config.agent.node_name, "5");
    assert_eq!(config.policy.expect.rate_gbps, Some(12.5));
    assert_eq!(config.agent.state_dir, None);
    assert_eq!(config.agent.log_format, LogFormat::Json);
    assert_eq!(
        config.agent.host_root.join(&config.agent.kmsg),
        Path::new("/host/dev/kmsg")
    );
    assert!(config.counters.full);
    assert_eq!(config.hysteresis.flap_count, 5);
    let texts = |globs: &[Glob]| globs.iter().map(|g| g.0.clone()).collect::<Vec<_>>();
    assert_eq!(
        texts(&config.rails.exclude),
        ["mlx5_an0", "eth*", "mlx5_9/1"]
    );
    assert_eq!(texts(&config.rails.include), ["mlx5_?", "ib*"]);
    assert_eq!(texts(&config.counters.exclude), ["a*", "b"]);
    assert_eq!(config.policy.xid.overrides.len(), 1);
    let set = "--set policy.xid.overrides.79={action='ignore'}";
    let overrides = build(set, "", "").unwrap().policy.xid.overrides;
    assert_eq!(overrides, config.policy.xid.overrides);
    let set = "--set policy.link_flap.degraded={more_than=7,within='20m'}";
    let degraded = build(set, "", "").unwrap().policy.link_flap.degraded;
    assert_eq!(degraded.within.0.as_secs(), 1200);
    let set = "--set policy.link_flap.degraded={more=7,within='soon'}";
    assert_eq!(build(set, "", "").unwrap_err().len(), 2);
    let empty = "SELVAGE_INTERVALS_LINK= SELVAGE_POLICY_EXPECT_RAILS= SELVAGE_COUNTERS_FULL=";
    assert_eq!(build("", empty, "").unwrap(), build("", "", "").unwrap());
}

#[test]
fn a_setting_without_default_takes_its_own_type() {
    for (env, rails, rate) in [
        ("SELVAGE_POLICY_EXPECT_RAILS=8", Some(8), None),
        ("SELVAGE_POLICY_EXPECT_RATE_GBPS=400", None, Some(400.0)),
        ("SELVAGE_POLICY_EXPECT_RATE_GBPS=12.5", None, Some(12.5)),
    ] {
        let expect = build("", env, "").unwrap().policy.expect;
        assert_eq!((expect.rails, expect.rate_gbps), (rails, rate), "{env}");
    }
    let expect = build("", "", "[policy.expect]\nrails = 4")
        .unwrap()
        .policy
        .expect;
    assert_eq!(expect.rails, Some(4));
    let complaints = build("", "SELVAGE_POLICY_EXPECT_RAILS=eight", "").unwrap_err();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("policy.expect.rails"));
}

#[test]
fn all_complaints_at_once_with_line_and_suggestion() {
    let file = "\
[intervals]
lnik = \"2s\"
pci = \"2 minutes\"
gids = 60
dcb = \"1ms\"

[agent]
log_level = \"loud\"
listen = { port = 1 }

[polcy.link_state]
raise_after = \"1s\"

[policy]
link_state = 5

[policy.link_flap.degraded]
more_than = -1

[policy.xid.overrides.79]
action = \"explode\"

[policy.xid.overrides.sixty]
action = \"ignore\"
";
    let complaints = build(
        "--set intervals.link=soon --set hysteresis.flap_max_factor=0 --set policy.link_flap \
         --set policy.link_flap=1 --set intervals.lnik=1s --log-format=xml",
        "SELVAGE_COUNTERS_FULL=perhaps",
        file,
    )
    .unwrap_err();
    let want = [
        "s.toml:2: intervals.lnik: no such setting; did you mean intervals.link?",
        "s.toml:3: intervals.pci: not a length of time: \"2 minutes\"",
        "s.toml:4: intervals.gids: a length of time has a unit: write \"60s\"",
        "s.toml:5: intervals.dcb: 1ms is not between 100ms and 1d",
        "s.toml:8: agent.log_level: unknown variant `loud`",
        "s.toml:9: agent.listen: invalid type: map",
        "s.toml:11: polcy: no such setting; did you mean policy?",
        "s.toml:15: policy.link_state: is a section, not a value",
        "s.toml:18: policy.link_flap.degraded.more_than: invalid value: integer `-1`",
        "s.toml:20: policy.xid.overrides.79: unknown variant `explode`",
        "s.toml:23: policy.xid.overrides.sixty: invalid",
        "environment SELVAGE_COUNTERS_FULL: counters.full: \"perhaps\" is neither true nor false",
        "flag --log-format: agent.log_format: unknown variant `xml`",
        "flag --set: \"policy.link_flap\" is not of the form key=value",
        "flag --set: hysteresis.flap_max_factor: 0 is not between 1 and 1000",
        "flag --set: intervals.link: not a length of time: \"soon\"",
        "flag --set: intervals.lnik: no such setting; did you mean intervals.link?",
        "flag --set: policy.link_flap: is a section, not a value",
    ];
    for want in want {
        assert!(
            complaints.iter().any(|got| got.starts_with(want)),
            "{want}\nis not among\n{complaints:#?}"
        );
    }
    assert_eq!(complaints.len(), want.len(), "{complaints:#?}");
}

#[test]
fn what_would_be_accepted_and_mean_nothing_is_refused() {
    for (flags, file, want) in [
        (
            "--set policy.expect.rate_gbps=inf",
            "",
            "inf is not a finite number",
        ),
        (
            "--set policy.expect.rate_gbps=nan",
            "",
            "nan is not a finite number",
        ),
        (
            "--set policy.expect.rate_gbps=1e999",
            "",
            "1e999 is not a finite number",
        ),
        (
            "--set policy.link_rate.below=inf",
            "",
            "\"inf\" is not a number",
        ),
        (
            "",
            "rails.exclude = ['[']",
            "\"[\" matches no name: names do not contain '['",
        ),
        (
            "",
            "rails.include = ['mlx5_{0,1}']",
            "names do not contain '{'",
        ),
        ("", "counters.exclude = ['']", "an empty pattern"),
        ("", "counters.exclude = ['a/b']", "names do not contain '/'"),
        (
            "",
            "policy.link_flap.degraded.within = '0s'",
            "policy.link_flap.degraded.within: must be longer than no time",
        ),
        (
            "",
            "policy.xid.storm_within = '0s'",
            "policy.xid.storm_within: must be longer",
        ),
        (
            "",
            "policy.mute = ['link_stat']",
            "no such check: \"link_stat\"; did you mean link_state?",
        ),
        (
            "--set serve.tls_cert=/c",
            "",
            "flag --set: serve.tls_cert: has no effect without serve.tls_key",
        ),
        (
            "",
            "serve.tls_key = '/k'",
            "s.toml:1: serve.tls_key: has no effect without serve.tls_cert",
        ),
        (
            "--set serve.token_file=/t --set serve.tls_client_ca=/a",
            "",
            "serve.tls_client_ca: has no effect without serve.tls_cert",
        ),
        ("", "intervals.link = 10", "write \"10s\""),
        (
            "",
            "rails.include = 'mlx5_0'",
            "is a list: write [\"mlx5_0\"]",
        ),
        ("", "rails.include = 5", "write [\"mlx5_0\"]"),
        ("", "agent.node_name = 5", "is a text: write \"5\""),
        ("", "hysteresis.flap_count = '3'", "is a number: write 3"),
        ("", "policy.expect.rails = '8'", "is a number: write 8"),
        ("", "policy.expect.rails = '-1'", "invalid type: string"),
        ("", "policy.xid.fatal_for = '1'", "policy.xid.fatal_for"),
        (
            "",
            "[policy.xid.overrides.79]\naction = 'app'\nwithin = 60",
            "within: a length of time has a unit: write \"60s\"",
        ),
    ] {
        let complaints = build(flags, "", file).unwrap_err();
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains(want), "{want}\n{complaints:?}");
    }
}

#[test]
fn the_form_of_a_map_is_shown_and_right() {
    let text = to_toml_defaults();
    let at = text.find("# [policy.xid.overrides.63]").unwrap();
    let example: String = text[at..]
        .lines()
        .map(|line| line.trim_start_matches("# ").to_string() + "\n")
        .collect();
    let own = build("", "", &example).unwrap().policy.xid.overrides;
    assert_eq!(own.get(&63).unwrap().count, 3);
}

#[test]
fn what_is_no_toml() {
    let complaints = build("--log-level=loud", "", "[intervals\nlink = \n").unwrap_err();
    assert!(
        complaints[0].starts_with("s.toml:1: not TOML: "),
        "{complaints:?}"
    );
    let flag = complaints.iter().any(|said| said.contains("--log-level"));
    assert!(flag, "flags are checked all the same: {complaints:?}");
}

#[test]
fn toml_values_of_every_kind_are_refused_politely() {
    for value in [
        "1979-05-27",
        "inf",
        "nan",
        "99999999999999999999",
        "0x7fffffffffffffff",
        "true",
        "[1, [2]]",
        "[{a = 1}]",
        "{a = {b = 1}}",
        "1e400",
        "\"\"",
        "-0",
        "'\\'",
    ] {
        for key in [
            "agent.listen",
            "intervals.link",
            "policy.expect.rails",
            "counters.full",
            "rails.include",
            "policy.xid.overrides",
            "policy.xid.overrides.79",
            "nosuch.key",
            "agent",
        ] {
            let file = format!("{key} = {value}\n");
            if let Ok(config) = build("", "", &file) {
                assert!(config.complaints().is_empty());
            }
        }
    }
    assert!(build("", "", "counters.full = true").unwrap().counters.full);
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_of_our_name_are_left_alone() {
    let env = "SELVAGE_SERVICE_HOST=10.0.0.1 SELVAGE_SERVICE_PORT_METRICS=9949 \
               SELVAGE_PORT=tcp://10.0.0.1:9949 SELVAGE_PORT_9949_TCP_ADDR=10.0.0.1 \
               SELVAGE_WEB_PORT_80_TCP=tcp://10.0.0.1:80 SELVAGE_CONFIG=x HOME=/root";
    let loaded = loaded("", env, "").unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, []);
}

#[test]
fn unknown_variables_are_ignored_with_a_warning() {
    let loaded = loaded("", "SELVAGE_INTERVAL_LINK=1s", "").unwrap();
    assert_eq!(loaded.config, Config::default());
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let want =
        "environment SELVAGE_INTERVAL_LINK: no such setting; did you mean SELVAGE_INTERVALS_LINK?";
    assert_eq!(warnings, [want]);
}

#[test]
fn the_settings_in_force_tell_where_each_was_written() {
    let loaded = loaded(
        "--set intervals.link=4s --log-level=debug",
        "SELVAGE_INTERVALS_PCI=3m",
        "[policy.xid.overrides.79]\naction = \"ignore\"\n",
    )
    .unwrap();
    let text = loaded.to_toml();
    for line in [
        "agent.listen = \":9949\" # default",
        "agent.log_level = \"debug\" # flag --log-level",
        "intervals.link = \"4s\" # flag --set",
        "intervals.pci = \"3m\" # environment SELVAGE_INTERVALS_PCI",
        "policy.xid.overrides.79 = { action = \"ignore\", count = 1 } # s.toml:1",
        "# policy.expect.rails is not set",
    ] {
        assert!(text.lines().any(|got| got == line), "{line}\n{text}");
    }
    assert_eq!(build("", "", &text).unwrap(), loaded.config);
    let changed = loaded.changed();
    assert!(changed.starts_with("agent.log_level = \"debug\" (flag --log-level), "));
    assert!(!changed.contains("default"), "{changed}");
}

/// A value that serialises under another name than its field's would be no setting.
fn holds_all(fields: &[Field], values: &Value) {
    let names: BTreeSet<&str> = fields.iter().map(|field| field.name).collect();
    let values = values.as_object().unwrap();
    assert_eq!(names, values.keys().map(String::as_str).collect());
    for field in fields {
        if let Some(section) = field.section {
            holds_all(section, &values[field.name]);
        }
    }
}

#[test]
fn every_setting_has_help_and_a_variable_of_its_own() {
    let mut flags: BTreeSet<&str> = ["config", "set", "help", "version", "output"].into();
    let mut envs: BTreeSet<&str> = BTreeSet::new();
    assert!(settings().len() > 30);
    for setting in settings() {
        assert!(!setting.help.is_empty(), "{} has no help", setting.key);
        if setting.is_map() {
            continue;
        }
        if let Some(flag) = &setting.flag {
            assert!(flags.insert(flag), "--{flag} twice");
        }
        assert!(envs.insert(&setting.env), "{} twice", setting.env);
    }
    holds_all(Config::FIELDS, &defaults());
    add_args(clap::Command::new("selvage")).debug_assert();
}

#[test]
fn the_printed_defaults_give_the_defaults_back() {
    let text = to_toml_defaults();
    assert_eq!(build("", "", &text).unwrap(), Config::default());
    for setting in settings() {
        assert!(text.contains(&setting.env), "{}", setting.key);
        assert!(text.contains(setting.section_and_name().1));
    }
    assert!(text.lines().all(|line| line.len() <= 140), "{text}");
}

#[test]
fn every_default_survives_being_written_out() {
    for setting in settings().iter().filter(|setting| !setting.is_map()) {
        let serde_json::Value::String(text) = &setting.default else {
            continue;
        };
        let set = format!("--set {}={text}", setting.key);
        assert_eq!(build(&set, "", "").unwrap(), Config::default(), "{set}");
    }
}

#[test]
fn the_nodes_name() {
    let name = |set: &str, node: Option<&str>, host: Option<&str>| {
        let mut loaded = loaded(&format!("--node-name={set}"), "", "").unwrap();
        loaded.resolve_node_name(node.map(String::from), |_| host.map(String::from));
        loaded.config.agent.node_name
    };
    assert_eq!(name("set", Some("env"), Some("host")), "set");
    assert_eq!(name("", Some("env"), Some("host")), "env");
    assert_eq!(name("", Some(" "), Some("host\n")), "host");
    assert_eq!(name("", None, None), "unknown");
}

proptest::proptest! {
    #[test]
    fn no_file_makes_it_panic(text in "[\\[\\]a-z_.=\"0-9{} \n,#']{0,200}") {
        let _ = build("", "", &text);
    }
}
