//! Pages that are generated are up to date (`UPDATE_GOLDEN=1` writes them), and what others say of
//! checks, metrics and screens is so.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::string_slice,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

#[path = "docs/checks_page.rs"]
mod checks_page;
mod support;

use selvage::check::CHECKS;
use selvage::report::catalogue::CATALOGUE;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use support::{node, selvage};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_default()
}

fn generated(name: &str, want: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(root().join(name), want).unwrap();
    }
    assert!(
        page(name) == want,
        "{name} is out of date: UPDATE_GOLDEN=1 cargo test --test docs"
    );
}

#[test]
fn the_page_of_checks_is_up_to_date() {
    generated("docs/checks.md", &checks_page::checks_markdown());
}

#[test]
fn the_page_of_settings_is_up_to_date() {
    let settings = selvage::config::to_toml_defaults();
    let page = format!(
        "# Settings\n\nThe output of `selvage config`. Flags and `--set KEY=VALUE` override environment \
         variables, those override the file (`--config FILE` or `SELVAGE_CONFIG`), and that overrides \
         the defaults. Unknown keys and invalid values are refused, all at once; unknown `SELVAGE_…` \
         variables only give a warning, and an empty one counts as unset where the setting has no empty value. `selvage config --effective` prints the settings in force and \
         where each was written.\n\n```toml\n{settings}```\n"
    );
    generated("docs/config.md", &page);
}

#[test]
fn the_page_of_preflight_has_every_item_and_reason() {
    use selvage::check::preflight::{names, reasons};
    let page = page("docs/preflight.md");
    for item in names() {
        let row = format!("| `{item}` | ");
        assert!(
            page.lines().any(|line| line.starts_with(&row)),
            "no row {row}"
        );
    }
    // One row for each reason, with a remedy, and no row for any other.
    let documented: Vec<Vec<&str>> = page
        .lines()
        .map(|line| line.split(" | ").collect::<Vec<_>>())
        .filter(|cells| {
            cells.len() == 3 && cells[1].starts_with('`') && cells[0].starts_with("| `")
        })
        .filter(|cells| names().any(|item| cells[0] == format!("| `{item}`")))
        .collect();
    let mut expected: Vec<[String; 2]> = reasons()
        .map(|(item, reason)| [format!("| `{item}`"), format!("`{reason}`")])
        .collect();
    let mut found: Vec<&[&str]> = documented.iter().map(|cells| &cells[..2]).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    for cells in documented {
        assert!(
            cells[2].trim_end_matches(" |").len() > 3,
            "no remedy: {cells:?}"
        );
    }
}

/// Words in back quotes.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .filter(|line| !line.starts_with("```"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn the_readme_tells_of_every_check_and_of_no_other() {
    let readme = page("README.md");
    let rows: BTreeSet<&str> = readme
        .lines()
        .skip_while(|line| *line != "| check | looks at |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|row| quoted(row.split('|').nth(1).unwrap_or_default()))
        .collect();
    let checks: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    let differ: Vec<&&str> = rows.symmetric_difference(&checks).collect();
    assert!(
        differ.is_empty(),
        "in README's table of checks or in CHECKS alone: {differ:?}"
    );
}

#[test]
fn every_metric_that_a_page_names_exists() {
    let of_files = &selvage::report::bench::textfile::FAMILIES;
    let of_files = of_files.iter().map(|family| family.name);
    let families = CATALOGUE.iter().map(|family| family.name);
    let known: BTreeSet<&str> = families.chain(of_files).collect();
    let mut pages = vec!["README.md".to_string(), "ARCHITECTURE.md".to_string()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        pages.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    let mut seen = 0;
    for name in pages {
        let page = page(&name);
        for word in quoted(&page) {
            let family = word.split('{').next().unwrap_or_default();
            if family.starts_with("selvage_") && !family.contains([' ', '…', '*']) {
                assert!(known.contains(family), "{name}: {family}");
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} metrics found");
}

/// The screen in the README is what the program prints, to the letter.
#[test]
fn the_readme_s_screen_is_real() {
    let readme = page("README.md");
    let (dir, _node) = node("rail_down");
    let (code, screen) = selvage(dir.path(), &["check"]);
    assert_eq!(code, 2);
    let screen = screen.replacen("node-1", "dgx-1", 1);
    let begin = readme.find("UNREADY  ").expect("a screen");
    let (before, rest) = readme.split_at(begin);
    let end = rest.find("```").expect("its end");
    generated("README.md", &format!("{before}{screen}{}", &rest[end..]));
}

/// The files that rustc read for the library of this build. Cargo's own `selvage.d` is only there
/// after `cargo build`.
fn library_files() -> String {
    let deps = std::env::current_exe().unwrap();
    let of_library = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).ok()?;
        let rule = text.lines().find(|l| l.contains(".rlib: "))?;
        let files = rule.split_once(": ").unwrap().1.to_string();
        Some((path.metadata().ok()?.modified().ok()?, files))
    };
    std::fs::read_dir(deps.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("selvage-") && name.ends_with(".d")
        })
        .filter_map(of_library)
        .max()
        .expect("rustc's list of files")
        .1
}

/// By the compiler's own list of files.
#[test]
fn the_image_s_build_gets_every_file_that_the_compiler_reads() {
    let dockerfile = page("manifests/image/Dockerfile");
    let copied: Vec<&str> = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|line| !line.starts_with("--"))
        .flat_map(|line| line.rsplit_once(' ').unwrap().0.split(' '))
        .collect();
    let sent = page("manifests/image/Dockerfile.dockerignore");
    let sent: BTreeSet<&str> = sent.lines().filter_map(|l| l.strip_prefix('!')).collect();
    assert_eq!(sent, copied.iter().copied().collect());

    let built = library_files();
    let files: Vec<&Path> = built
        .split_whitespace()
        .map(Path::new)
        .map(|file| file.strip_prefix(root()).unwrap_or(file))
        .filter(|file| file.is_relative())
        .collect();
    let lacking: Vec<&&Path> = files
        .iter()
        .filter(|f| !copied.iter().any(|of| f.starts_with(of)) && !f.starts_with("target"))
        .collect();
    assert!(
        files.len() > 300 && lacking.is_empty(),
        "{lacking:?} of {}",
        files.len()
    );
}
