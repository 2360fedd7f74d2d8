//! The drawing: one small SVG for each group of the plan, so that they wrap on a narrow screen.
//! GPUs stand on the left, the PCIe switch is the bar between, ports with their links on the right.

use super::html::{Html, cut};
use super::severity_icon::{About, Severity};
use super::topology_layout::{Above, Gpu, Group, Layout, MAX_GROUPS, Port};
use crate::observe::pci::PcieLink;
use crate::observe::reading::Reading;
use crate::report::port_view;
use std::fmt::Write as _;

/// Width of a drawing, and the height of a row, in its own units; about a pixel each.
const WIDTH: i32 = 360;
const ROW: i32 = 46;

/// Left edges and widths of the columns.
const GPU: (i32, i32) = (1, 90);
const BAR: (i32, i32) = (102, 6);
const NIC: (i32, i32) = (119, 102);
const LINK_END: i32 = 340;

/// Draws the plan's groups.
pub(super) fn groups(html: &mut Html, plan: &Layout<'_>) {
    html.raw("<div class=\"groups\">\n");
    for (number, group) in plan.groups.iter().take(MAX_GROUPS).enumerate() {
        one(html, number, group);
    }
    html.raw("</div>\n");
    let more = plan.groups.len().saturating_sub(MAX_GROUPS);
    if more > 0 {
        html.leaf(
            "p",
            &[("class", "dim")],
            &format!("and {more} more groups, in the table"),
        );
    }
    legend(html);
}

fn legend(html: &mut Html) {
    html.raw("<ul class=\"legend\" aria-label=\"Legend\">");
    for (mark, words) in [
        (Severity::Ok, "ok"),
        (Severity::Failing, "failing"),
        (Severity::Degraded, "degraded"),
        (Severity::Unknown, "unknown"),
        (Severity::Notice, "notice only"),
        (Severity::Off, "not in use"),
    ] {
        html.raw("<li>");
        mark.draw(html);
        html.text(words);
        html.raw("</li>");
    }
    html.raw(
        "<li><span class=\"box\" aria-hidden=\"true\"></span>rail</li>\
         <li><span class=\"box dashed\" aria-hidden=\"true\"></span>other port</li></ul>\n",
    );
}

/// What a group hangs on, in words.
fn title<'g>(group: &'g Group<'_>) -> (&'static str, Option<&'g str>) {
    match &group.above {
        Above::Switch(address) => ("PCIe switch", Some(address)),
        Above::RootPort(address) => ("PCIe root port", Some(address)),
        Above::Numa => ("Own root ports", None),
        Above::Unseen => ("PCIe switches not visible", None),
        Above::Gone => ("No longer there", None),
    }
}

fn numa(group: &Group<'_>) -> Option<String> {
    group.numa.map(|node| format!("NUMA {node}"))
}

fn one(html: &mut Html, number: usize, group: &Group<'_>) {
    let mark = group.mark();
    html.open("figure", &[("class", &format!("group b-{}", edge(mark)))]);
    html.raw("<figcaption>");
    mark.draw(html);
    let (what, address) = title(group);
    html.leaf("span", &[], what);
    if let Some(address) = address {
        html.raw(" ");
        html.leaf("code", &[], address);
    }
    if let Some(node) = numa(group) {
        html.leaf("span", &[("class", "numa")], &node);
    }
    html.raw("</figcaption>\n");
    if group.gone.is_empty() {
        picture(html, number, group);
    } else {
        html.raw("<ul class=\"gone\">");
        for (subject, mark, reason) in &group.gone {
            html.raw("<li>");
            mark.badge(html, subject);
            html.raw(" ");
            html.text(reason);
            html.raw("</li>");
        }
        html.raw("</ul>");
    }
    html.raw("</figure>\n");
}

/// Class of a group's edge: only what asks to be looked at has a colour.
fn edge(mark: Severity) -> &'static str {
    match mark {
        Severity::Failing | Severity::Degraded | Severity::Unknown => mark.class(),
        Severity::Ok | Severity::Off | Severity::Notice => "none",
    }
}

fn picture(html: &mut Html, number: usize, group: &Group<'_>) {
    let rows = group.gpus.len().max(group.ports.len());
    let rows = i32::try_from(rows).unwrap_or(1).max(1);
    let height = rows * ROW;
    let (title_id, text_id) = (format!("t-{number}"), format!("d-{number}"));
    html.open(
        "svg",
        &[
            ("class", "plan"),
            ("viewBox", &format!("0 0 {WIDTH} {height}")),
            ("role", "img"),
            ("aria-labelledby", &title_id),
            ("aria-describedby", &text_id),
        ],
    );
    let (what, address) = title(group);
    let node = numa(group).map_or(String::new(), |node| format!(", {node}"));
    let name = format!("{what} {}{node}", address.unwrap_or_default());
    html.leaf("title", &[("id", &title_id)], &name);
    html.leaf("desc", &[("id", &text_id)], &described(group));
    let seen = matches!(group.above, Above::Switch(_) | Above::RootPort(_));
    if seen {
        bar(html, height);
    }
    for (gpu, y) in group.gpus.iter().zip(centres(rows, group.gpus.len())) {
        draw_gpu(html, gpu, y, seen);
    }
    for (port, y) in group.ports.iter().zip(centres(rows, group.ports.len())) {
        draw_port(html, port, y, seen);
    }
    html.close("svg");
}

/// Middles of `count` boxes spread over the rows.
fn centres(rows: i32, count: usize) -> impl Iterator<Item = i32> {
    let count = i32::try_from(count).unwrap_or(1).max(1);
    let step = rows * ROW / count;
    (0..count).map(move |n| step * n + step / 2)
}

fn bar(html: &mut Html, height: i32) {
    let (x, width) = BAR;
    shape(
        html,
        "rect",
        "bar",
        &[
            ("x", x),
            ("y", 4),
            ("width", width),
            ("height", height - 8),
            ("rx", 3),
        ],
    );
}

/// A shape with numbers only.
fn shape(html: &mut Html, tag: &'static str, class: &str, numbers: &[(&'static str, i32)]) {
    let texts: Vec<(&'static str, String)> = numbers
        .iter()
        .map(|(name, number)| (*name, number.to_string()))
        .collect();
    let mut attributes: Vec<(&'static str, &str)> = vec![("class", class)];
    attributes.extend(texts.iter().map(|(name, text)| (*name, text.as_str())));
    html.open(tag, &attributes);
    html.close(tag);
}

fn label(html: &mut Html, class: &str, (x, y): (i32, i32), text: &str) {
    let (x, y) = (x.to_string(), y.to_string());
    html.leaf("text", &[("class", class), ("x", &x), ("y", &y)], text);
}

fn wire(html: &mut Html, class: &str, from: i32, to: i32, y: i32) {
    let ends = [("x1", from), ("x2", to), ("y1", y), ("y2", y)];
    shape(html, "line", class, &ends);
}

fn glyph(html: &mut Html, mark: Severity, (x, y): (i32, i32)) {
    html.open(
        "g",
        &[
            ("class", mark.class()),
            ("transform", &format!("translate({x} {y})")),
        ],
    );
    html.raw(mark.shape());
    html.close("g");
}

/// A box of a GPU or NIC with two lines of text, its middle at `y`.
fn node(html: &mut Html, class: &str, (x, width): (i32, i32), y: i32, lines: [(&str, &str); 2]) {
    let numbers = [
        ("x", x),
        ("y", y - 18),
        ("width", width),
        ("height", 36),
        ("rx", 6),
    ];
    shape(html, "rect", class, &numbers);
    for ((class, text), dy) in lines.into_iter().zip([-3, 11]) {
        label(html, class, (x + 8, y + dy), text);
    }
}

fn draw_gpu(html: &mut Html, gpu: &Gpu<'_>, y: i32, wired: bool) {
    if wired {
        wire(html, &pcie_wire(&gpu.about), GPU.0 + GPU.1, BAR.0, y);
    }
    let class = format!("node e-{}", edge(gpu.mark));
    let name = format!("GPU {}", gpu.number);
    let lines = [("name", name.as_str()), ("sub", gpu.address.as_str())];
    node(html, &class, GPU, y, lines);
    if gpu.mark != Severity::Ok {
        glyph(html, gpu.mark, (GPU.0 + GPU.1 - 19, y - 16));
    }
}

fn draw_port(html: &mut Html, port: &Port<'_>, y: i32, wired: bool) {
    if wired {
        wire(html, &pcie_wire(&port.about), BAR.0 + BAR.1, NIC.0, y);
    }
    let dashed = if port.view.is_rail() { "" } else { " dashed" };
    let class = format!("node e-{}{dashed}", edge(port.mark));
    let pcie = port.about.pcie();
    let name = cut(&port.name(), if pcie.is_some() { 10 } else { 12 });
    node(
        html,
        &class,
        NIC,
        y,
        [("name", &name), ("sub", &port.address)],
    );
    if let Some(mark) = pcie {
        glyph(html, mark, (NIC.0 + NIC.1 - 19, y - 16));
    }
    let link = link(port);
    let from = NIC.0 + NIC.1;
    wire(html, &format!("link l-{}", link.class()), from, LINK_END, y);
    glyph(html, port.link, (LINK_END + 2, y - 8));
    let state = cut(&state(port), 17);
    let class = format!("rate t-{}", link.class());
    label(html, &class, (from + 6, y - 6), &state);
    if let Some(reason) = port.about.reason() {
        let class = format!("why t-{}", port.mark.class());
        label(html, &class, (from + 6, y + 15), &cut(reason, 18));
    }
}

/// Class of the stroke between a card and what is above it.
fn pcie_wire(about: &About<'_>) -> String {
    let class = about.pcie().map(|mark| format!(" l-{}", mark.class()));
    format!("wire{}", class.unwrap_or_default())
}

/// How the link itself is: a link that is up is drawn whole, whatever else is with its NIC.
fn link(port: &Port<'_>) -> Severity {
    match port.link {
        Severity::Notice if port.view.is_up() => Severity::Ok,
        Severity::Notice => Severity::Off,
        mark => mark,
    }
}

/// State and rate in a few words.
pub(super) fn state(port: &Port<'_>) -> String {
    let view = &port.view;
    match (view.is_up(), view.rate(), view.state()) {
        (true, Some(rate), _) => rate.to_string(),
        (true, None, _) => "active".into(),
        (false, _, None) => "state unknown".into(),
        (false, _, state) => format!(
            "{}/{}",
            port_view::state_name(state),
            port_view::phys_state_name(view.phys_state())
        ),
    }
}

/// PCIe link of a function: `32 GT/s x16`, with what it could be where it is less.
pub(super) fn pcie(function: Option<&crate::observe::pci::PciFunction>) -> Option<String> {
    let text = |link: &PcieLink| {
        let speed = f64::from(link.megatransfers) / 1000.0;
        format!("{speed} GT/s x{}", link.width)
    };
    let function = function?;
    let Reading::Value(current) = &function.current else {
        return None;
    };
    let mut told = text(current);
    if let Reading::Value(max) = &function.max
        && (max.megatransfers > current.megatransfers || max.width > current.width)
    {
        let _ = write!(told, " of {}", text(max));
    }
    Some(told)
}

/// The same in words.
fn described(group: &Group<'_>) -> String {
    let gpus = group.gpus.iter().map(|gpu| {
        let said = said(gpu.mark, &gpu.about);
        format!("GPU {} at {}: {said}", gpu.number, gpu.address)
    });
    let ports = group.ports.iter().map(|port| {
        let kind = if port.view.is_rail() { "rail" } else { "port" };
        let said = said(port.mark, &port.about);
        format!("{kind} {}: {}, {said}", port.name(), state(port))
    });
    let all: Vec<String> = gpus.chain(ports).collect();
    all.join("; ")
}

fn said(mark: Severity, about: &About<'_>) -> String {
    match about.reason() {
        Some(reason) => format!("{} ({reason})", mark.word()),
        None => mark.word().to_string(),
    }
}
