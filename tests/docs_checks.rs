//! docs/checks.md is what the table of checks says; `UPDATE_GOLDEN=1` writes it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[test]
fn the_page_of_checks_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/checks.md");
    let want = selvage::check::checks_markdown();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
        std::fs::write(path, &want).unwrap();
    }
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        have == want,
        "docs/checks.md is out of date: UPDATE_GOLDEN=1 cargo test --test docs_checks"
    );
}
