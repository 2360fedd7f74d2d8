//! The program's table of machines against what is published of them (`published.txt`).

use selvage::check::profile::{Certainty, Fabric, Shape, by_type, shapes};

const PUBLISHED: &str = include_str!("published.txt");

/// A published number: how many or how fast, and whether that is a ceiling only.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Unknown,
    Exactly(u32),
    AtMost(u32),
}

fn number(text: &str) -> Number {
    let parsed = |text: &str| text.parse().unwrap();
    match text.strip_prefix("<=") {
        Some(most) => Number::AtMost(parsed(most)),
        None if text == "?" => Number::Unknown,
        None => Number::Exactly(parsed(text)),
    }
}

impl Number {
    /// Whether the program may say this: no other number, and not surer than its source.
    fn allows(self, (count, sure): (u32, Certainty)) -> bool {
        match self {
            Number::Unknown => sure == Certainty::No,
            Number::Exactly(most) => count == most || (count == 0 && sure == Certainty::No),
            Number::AtMost(most) => {
                sure != Certainty::Yes && (count == most || (count == 0 && sure == Certainty::No))
            }
        }
    }
}

struct Row {
    name: &'static str,
    rails: Number,
    gbps: Number,
    link: &'static str,
    gpus: Option<u32>,
}

fn rows() -> Vec<Row> {
    let lines = PUBLISHED.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, rails, gbps, link, gpus, sources] = cells[..] else {
            panic!("{line}");
        };
        assert!(!sources.is_empty(), "{line}");
        Row {
            name,
            rails: number(rails),
            gbps: number(gbps),
            link,
            gpus: (gpus != "?").then(|| gpus.parse().unwrap()),
        }
    };
    lines.skip(1).map(row).collect()
}

fn link_fits(link: &str, fabric: Fabric) -> bool {
    match fabric {
        Fabric::Efa => link == "EFA",
        Fabric::Infiniband => link == "InfiniBand",
        Fabric::Roce => link == "RoCE",
        Fabric::Gvnic => link == "gVNIC",
        Fabric::Mellanox => ["VPI", "InfiniBand", "RoCE"].contains(&link),
        Fabric::None => link == "none",
    }
}

fn complaints(row: &Row, shape: &Shape) -> Vec<String> {
    let gpus = shape.gpus == 0 || row.gpus == Some(shape.gpus);
    let held = [
        ("rails", row.rails.allows(shape.rails)),
        // A ceiling on what is not there needs no rate.
        (
            "rate",
            shape.fabric == Fabric::None || row.gbps.allows(shape.gbps),
        ),
        ("link", link_fits(row.link, shape.fabric)),
        ("GPUs", gpus),
    ];
    let wrong = held.into_iter().filter(|(_, holds)| !holds);
    wrong
        .map(|(what, _)| format!("{}: {what} of {shape:?}", row.name))
        .collect()
}

#[test]
fn no_row_says_more_than_its_source() {
    let rows = rows();
    let complaints = |row: &Row| match by_type(row.name) {
        Some(shape) => complaints(row, shape),
        None => vec![format!("{}: no such shape", row.name)],
    };
    let wrong: Vec<String> = rows.iter().flat_map(complaints).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_shape_has_a_published_row() {
    let rows = rows();
    let published = |shape: &&Shape| rows.iter().any(|row| by_type(row.name) == Some(*shape));
    let without: Vec<&str> = (shapes().iter().filter(|shape| !published(shape)))
        .map(|shape| shape.name)
        .collect();
    assert_eq!(without, [""; 0], "not in tests/shapes/published.txt");
}

/// The comparison notices each kind of mistake.
#[test]
fn a_wrong_row_is_found() {
    let row = rows().into_iter().find(|row| row.name == "bm.gpu.h200.8");
    let row = row.unwrap();
    let shape = || by_type("bm.gpu.h200.8").unwrap().clone();
    let wrong = [
        Shape {
            rails: (16, Certainty::Yes),
            ..shape()
        },
        Shape {
            gbps: (200, Certainty::Yes),
            ..shape()
        },
        Shape {
            fabric: Fabric::Infiniband,
            ..shape()
        },
        Shape { gpus: 4, ..shape() },
    ];
    assert_eq!(complaints(&row, &shape()), [""; 0]);
    for shape in wrong {
        assert_eq!(complaints(&row, &shape).len(), 1, "{shape:?}");
    }
    let ceiling = number("<=8");
    assert!(!ceiling.allows((8, Certainty::Yes)) && ceiling.allows((8, Certainty::AtMost)));
}
