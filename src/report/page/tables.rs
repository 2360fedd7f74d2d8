//! Tables: every port and every GPU, as the drawing shows them and with what it has no room for.

use super::drawing::pcie;
use super::html::Html;
use super::topology_layout::{Gpu, Layout, Port};
use crate::observe::pci::Distance;
use crate::report::Report;
use crate::report::port_view;

/// Rows of a table.
const MAX_ROWS: usize = 64;

/// A table that scrolls by itself where it is too wide; `rows` writes its body.
pub(super) fn table(
    html: &mut Html,
    id: &'static str,
    caption: &str,
    heads: &[&'static str],
    rows: impl FnOnce(&mut Html),
) {
    html.open(
        "div",
        &[
            ("class", "scroll"),
            ("role", "region"),
            ("aria-labelledby", id),
            ("tabindex", "0"),
        ],
    );
    html.raw("<table>");
    html.leaf("caption", &[("id", id)], caption);
    html.raw("<thead><tr>");
    for head in heads {
        html.leaf("th", &[("scope", "col")], head);
    }
    html.raw("</tr></thead>\n<tbody>");
    rows(html);
    html.raw("</tbody></table></div>\n");
}

/// A cell, with a dash where there is nothing to tell.
pub(super) fn cell(html: &mut Html, class: &'static str, text: Option<&str>) {
    let text = text.filter(|text| !text.is_empty()).unwrap_or("–");
    html.leaf("td", &[("class", class)], text);
}

/// A row's head.
pub(super) fn head(html: &mut Html, text: &str) {
    html.leaf("th", &[("scope", "row")], text);
}

/// That a list was cut.
pub(super) fn more(html: &mut Html, count: usize, shown: usize, what: &'static str) {
    let more = count.saturating_sub(shown);
    if more > 0 {
        html.raw("<p class=\"dim\">and ");
        html.text(&more.to_string());
        html.raw(" more ");
        html.raw(what);
        html.raw(", in <a href=\"/report\">/report</a></p>\n");
    }
}

/// All ports, worst first.
pub(super) fn ports(html: &mut Html, plan: &Layout<'_>) {
    if plan.ports.is_empty() {
        return;
    }
    let mut ports: Vec<&Port<'_>> = plan.ports.iter().collect();
    ports.sort_by_key(|port| {
        (
            std::cmp::Reverse(port.mark.attention()),
            !port.view.is_rail(),
        )
    });
    let heads = [
        "Port",
        "Health",
        "Findings",
        "Link",
        "Rate",
        "PCIe link",
        "PCI",
        "NUMA",
        "Layer",
        "Netdev",
        "Role",
    ];
    table(html, "port-table", "Ports, worst first", &heads, |html| {
        for port in ports.iter().take(MAX_ROWS) {
            port_row(html, port);
        }
    });
    more(html, ports.len(), MAX_ROWS, "ports");
    if plan.left_out > 0 {
        let text = format!(
            "{} virtual functions that are no rails are left out.",
            plan.left_out
        );
        html.leaf("p", &[("class", "dim")], &text);
    }
}

fn port_row(html: &mut Html, port: &Port<'_>) {
    let view = &port.view;
    html.raw("<tr>");
    head(html, &view.name());
    html.raw("<td>");
    port.mark.badge(html, port.mark.word());
    html.raw("</td><td>");
    match port.about.0.is_empty() {
        true => html.raw("–"),
        false => port.about.links(html),
    }
    html.raw("</td>");
    let state = port_view::state_name(view.state());
    let state = match view.is_up() || view.state().is_none() {
        true => state.to_string(),
        false => format!("{state}/{}", port_view::phys_state_name(view.phys_state())),
    };
    cell(html, "", Some(&state));
    cell(
        html,
        "num",
        view.rate().map(|rate| rate.to_string()).as_deref(),
    );
    cell(html, "num", pcie(port.function).as_deref());
    cell(html, "id", Some(&port.address));
    cell(
        html,
        "num",
        port.numa().map(|node| node.to_string()).as_deref(),
    );
    cell(html, "", Some(port_view::link_layer(view.port.link_layer)));
    cell(html, "id", view.port.netdev.as_deref());
    let role = if view.is_rail() { "rail" } else { "other" };
    let role = match view.role {
        Some(facts) => format!("{role}: {}", facts.why),
        None => "not judged".into(),
    };
    cell(html, "", Some(&role));
    html.raw("</tr>\n");
}

/// All GPUs, worst first.
pub(super) fn gpus(html: &mut Html, report: &Report, plan: &Layout<'_>) {
    if plan.gpus.is_empty() {
        return;
    }
    let mut gpus: Vec<&Gpu<'_>> = plan.gpus.iter().collect();
    gpus.sort_by_key(|gpu| std::cmp::Reverse(gpu.mark.attention()));
    let heads = [
        "GPU",
        "Health",
        "PCI",
        "Model",
        "NUMA",
        "PCIe link",
        "Nearest port",
        "Findings",
    ];
    table(html, "gpu-table", "GPUs, worst first", &heads, |html| {
        for gpu in gpus.iter().take(MAX_ROWS) {
            gpu_row(html, report, gpu);
        }
    });
    more(html, gpus.len(), MAX_ROWS, "GPUs");
}

fn gpu_row(html: &mut Html, report: &Report, gpu: &Gpu<'_>) {
    let address = gpu.bdf.to_string();
    html.raw("<tr>");
    head(html, &format!("GPU {}", gpu.number));
    html.raw("<td>");
    gpu.mark.badge(html, gpu.mark.word());
    html.raw("</td>");
    cell(html, "id", Some(&gpu.address));
    let driven = port_view::gpudirect(report).and_then(|facts| {
        let mut gpus = facts.gpus.iter();
        gpus.find(|driven| driven.pci.parse() == Ok(gpu.bdf))
    });
    cell(html, "", driven.and_then(|gpu| gpu.model.as_deref()));
    let numa = gpu.function.and_then(|function| function.numa_node);
    cell(html, "num", numa.map(|node| node.to_string()).as_deref());
    cell(html, "num", pcie(gpu.function).as_deref());
    cell(html, "", nearest(report, &address).as_deref());
    html.raw("<td>");
    match gpu.about.0.is_empty() {
        true => html.raw("–"),
        false => gpu.about.links(html),
    }
    html.raw("</td></tr>\n");
}

/// The devices nearest to a GPU, and how near.
fn nearest(report: &Report, gpu: &str) -> Option<String> {
    let pci = &report.snapshot.pci.as_ref()?.value;
    if pci.virtual_machine && pci.distances.is_empty() {
        return None;
    }
    let near = |nic: &String| pci.distances.get(nic)?.get(gpu).copied();
    let best = pci.distances.keys().filter_map(near).min()?;
    let devices = report.snapshot.devices.as_ref()?;
    let names: Vec<&str> = devices
        .value
        .iter()
        .filter(|device| {
            let address = device.pci.map(|pci| pci.to_string());
            address.and_then(|address| near(&address)) == Some(best)
        })
        .map(|device| device.name.as_str())
        .collect();
    let how = match best {
        Distance::Pix => "PIX",
        Distance::Pxb => "PXB",
        Distance::Phb => "PHB",
        Distance::Sys => "SYS",
    };
    let shown: Vec<&str> = names.iter().take(4).copied().collect();
    let more = match names.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{}{more} ({how})", shown.join(", ")))
}
