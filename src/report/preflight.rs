//! The report of `selvage preflight`, as JSON and as text.

use super::text::{Page, after_colon};
use super::{State, Style};
use crate::check::preflight::{Item, ItemStatus};

/// The output of `selvage preflight -o json`: one object.
pub fn json(state: State, items: &[Item]) -> String {
    let document = object! {
        schema: "selvage.dev/preflight/v1",
        state: state.as_str(),
        reasons: reasons(items),
        items: items,
    };
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Reasons of the items with the worst status, each once.
fn reasons(items: &[Item]) -> Vec<&'static str> {
    let worst = items.iter().map(|item| item.status).max();
    let worst = worst.filter(|status| *status >= ItemStatus::Unknown);
    let worst = items.iter().filter(|item| Some(item.status) == worst);
    let mut reasons: Vec<&'static str> = worst.filter_map(|item| item.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

/// The verdict in one sentence.
fn headline(state: State, items: &[Item]) -> &'static str {
    let of = |id: &str| items.iter().find(|item| item.item == id);
    let is_tcp = of("nccl_network").is_some_and(|item| item.evidence.contains_key("network"));
    // The job needs no RDMA device, and has no platform whose rails are something else.
    let needs_none = of("uverbs").is_some_and(|item| {
        item.status == ItemStatus::Skipped && !item.evidence.contains_key("rails")
    });
    match state {
        State::Ready | State::Degraded if is_tcp => "the job will use TCP, as its settings ask",
        State::Ready if needs_none => "no problem found, and the job does not need the fabric",
        State::Ready => "the job in this container can use the fabric",
        State::Degraded => "the job will run with less than is available",
        State::Unready => "the job will fail, or fall back to TCP",
        State::Unknown | State::NoFabric => "not enough could be checked",
    }
}

/// The verdict, then one line an item, with the remedy below each problem.
pub fn text(state: State, items: &[Item], style: Style) -> String {
    let mut page = Page::new(style, 160);
    let word = state.as_str().to_uppercase();
    let sentence = headline(state, items).to_string() + &after_colon(&reasons(items));
    let lead = format!("{}  ", page.judged(&word));
    page.whole(&lead, word.len() + 2, &sentence);
    page.line("");
    let widest = items.iter().map(|item| item.item.len()).max().unwrap_or(0);
    let indent = 2 + 8 + 2 + widest + 2;
    for item in items {
        let word = format!("{:<8}", item.status.as_str());
        let lead = format!("  {}  {:<widest$}  ", page.judged(&word), item.item);
        page.whole(&lead, indent, &item.message);
        if !item.remedy.is_empty() {
            let lead = format!("{:indent$}fix: ", "");
            page.whole(&lead, indent + 5, &item.remedy);
        }
    }
    page.out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn item(name: &'static str, status: ItemStatus, reason: Option<&'static str>) -> Item {
        Item {
            item: name,
            status,
            reason,
            message: "a message\u{1b}[31m".into(),
            remedy: if status >= ItemStatus::Degraded {
                "NCCL_NET: unset it".into()
            } else {
                String::new()
            },
            evidence: BTreeMap::new(),
        }
    }

    fn items() -> Vec<Item> {
        vec![
            item("uverbs", ItemStatus::Ok, None),
            item("gds", ItemStatus::Unknown, Some("GdsUnreadable")),
            item("ib_hca", ItemStatus::Failing, Some("HcaMatchesNothing")),
            item("memlock", ItemStatus::Failing, Some("MemlockTooLow")),
        ]
    }

    #[test]
    fn a_screen() {
        let got = text(State::Unready, &items(), Style::default());
        let want = "\
UNREADY  the job will fail, or fall back to TCP: HcaMatchesNothing,
         MemlockTooLow

  ok        uverbs   a message?[31m
  unknown   gds      a message?[31m
  failing   ib_hca   a message?[31m
                     fix: NCCL_NET: unset it
  failing   memlock  a message?[31m
                     fix: NCCL_NET: unset it
";
        assert_eq!(got, want);
    }

    #[test]
    fn nothing_is_cut() {
        let mut skipped = item("gds", ItemStatus::Skipped, None);
        skipped.message = "why it does not apply, ".repeat(60) + "end";
        for width in [40, 100] {
            let style = Style {
                width,
                ..Style::default()
            };
            let got = text(State::Unknown, std::slice::from_ref(&skipped), style);
            let words: Vec<&str> = got.split_whitespace().collect();
            assert!(words.join(" ").ends_with(&skipped.message), "{got}");
            assert!(got.lines().all(|line| line.len() <= width), "{got}");
        }
    }

    #[test]
    fn an_object() {
        let got: serde_json::Value = serde_json::from_str(&json(State::Unready, &items())).unwrap();
        assert_eq!(got["schema"], "selvage.dev/preflight/v1");
        assert_eq!(got["state"], "unready");
        assert_eq!(
            got["reasons"],
            serde_json::json!(["HcaMatchesNothing", "MemlockTooLow"])
        );
        assert_eq!(got["items"][1]["status"], "unknown");
        assert_eq!(got["items"][0]["reason"], serde_json::Value::Null);
        assert_eq!(got["items"].as_array().unwrap().len(), 4);
    }
}
