//! What `selvage preflight` found, as JSON and for people.

use super::State;
use super::json::indent::indent;
use super::text::Style;
use super::text::writer::{Colour, Page};
use crate::check::preflight::{Item, ItemStatus};
use serde::Serialize;

/// `selvage preflight -o json`: one object.
pub fn json(state: State, items: &[Item]) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        state: &'static str,
        reasons: Vec<&'static str>,
        items: &'a [Item],
    }
    let document = Document {
        schema: "selvage.dev/preflight/v1",
        state: state.as_str(),
        reasons: reasons(items),
        items,
    };
    let mut text = indent(&serde_json::to_string(&document).unwrap_or_default());
    text.push('\n');
    text
}

/// Reasons of the items that are of the worst kind, each once.
fn reasons(items: &[Item]) -> Vec<&'static str> {
    let counts = |item: &&Item| item.status >= ItemStatus::Unknown;
    let worst = items.iter().filter(counts).map(|item| item.status).max();
    let mut reasons: Vec<&'static str> = items
        .iter()
        .filter(|item| Some(item.status) == worst)
        .filter_map(|item| item.reason)
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

/// What is said of a job that asks for TCP.
const AS_ASKED: &str = "the job will use TCP, as its settings ask";

/// For people: the verdict, then one line an item, with the remedy below what is wrong.
pub fn text(state: State, items: &[Item], style: Style) -> String {
    let mut page = Page {
        out: String::new(),
        width: style.width.clamp(40, 160),
        colour: style.colour,
    };
    let of = |item: &str| items.iter().find(|known| known.item == item);
    let tcp = of("nccl_network").is_some_and(|item| {
        item.evidence
            .get("network")
            .is_some_and(|net| net == "Socket")
    });
    // Neither RDMA devices nor a platform that has its rails elsewhere, and nobody wants them.
    let without = of("uverbs").is_some_and(|item| {
        item.status == ItemStatus::Skipped && !item.evidence.contains_key("rails")
    });
    let (colour, says) = match state {
        State::Ready if tcp => (Colour::Green, AS_ASKED),
        State::Degraded if tcp => (Colour::Yellow, AS_ASKED),
        State::Ready if without => (
            Colour::Green,
            "nothing here is wrong, and the job does without the fabric",
        ),
        State::Ready => (
            Colour::Green,
            "the job in this container can use the fabric",
        ),
        State::Degraded => (Colour::Yellow, "the job will run with less than there is"),
        State::Unready => (Colour::Red, "the job will fail, or fall back to TCP"),
        State::Unknown => (Colour::Magenta, "what was seen does not tell"),
    };
    let word = state.as_str().to_uppercase();
    let reasons = reasons(items);
    let reasons = match reasons.is_empty() {
        true => String::new(),
        false => format!(": {}", reasons.join(", ")),
    };
    let lead = format!("{}  ", page.paint(colour, &word));
    page.whole(&lead, word.len() + 2, &format!("{says}{reasons}"));
    page.line("");
    let widest = items.iter().map(|item| item.item.len()).max().unwrap_or(0);
    for item in items {
        one(&mut page, item, widest);
    }
    page.out
}

fn one(page: &mut Page, item: &Item, widest: usize) {
    let colour = match item.status {
        ItemStatus::Ok => Some(Colour::Green),
        ItemStatus::Skipped => None,
        ItemStatus::Unknown => Some(Colour::Magenta),
        ItemStatus::Degraded => Some(Colour::Yellow),
        ItemStatus::Failing => Some(Colour::Red),
    };
    let word = format!("{:<8}", item.status.as_str());
    let word = match colour {
        Some(colour) => page.paint(colour, &word),
        None => word,
    };
    let lead = format!("  {word}  {:<widest$}  ", item.item);
    let indent = 2 + 8 + 2 + widest + 2;
    page.whole(&lead, indent, &item.message);
    if !item.remedy.is_empty() {
        page.whole(
            &format!("{}fix: ", " ".repeat(indent)),
            indent + 5,
            &item.remedy,
        );
    }
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
