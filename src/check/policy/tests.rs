use super::*;

#[test]
fn defaults_round_trip_and_are_sound() {
    let policy = Policy::default();
    assert!(policy.complaints().is_empty());
    let text = toml::to_string(&policy).unwrap();
    assert_eq!(toml::from_str::<Policy>(&text).unwrap(), policy);
    assert_eq!(toml::from_str::<Policy>("").unwrap(), policy);
}

#[test]
fn settings_read_as_an_operator_writes_them() {
    let policy: Policy = toml::from_str(
        "mute = ['gds']\nexpect.rails = 8\n[xid.overrides.63]\naction = 'fatal'\ncount = 3\nwithin = '1h'\n[link_state]\nraise_after = '1s'\n",
    )
    .unwrap();
    assert_eq!(policy.expect.rails, Some(8));
    assert_eq!(policy.link_state.raise_after, Span::from_secs(1));
    assert_eq!(policy.link_state.clear_after, Span::from_secs(10));
    let own = policy.xid.overrides.get(&63).unwrap();
    assert_eq!((own.action, own.count), (Disposition::Fatal, 3));
}

#[test]
fn typos_are_refused() {
    for text in [
        "link_sate = {}",
        "[link_state]\nraise_afer = '1s'",
        "[expect]\nrail = 8",
        "[link_flap]\ndegraded = { more_then = 1, within = '1s' }",
    ] {
        assert!(toml::from_str::<Policy>(text).is_err(), "{text}");
    }
    let policy: Policy = toml::from_str("[congestion]\nstorm = 50.0\n").unwrap();
    assert_eq!(policy.complaints().len(), 1);
}
