//! Raw layers: what a file, the environment and flags say, as keys with values and origins. Nothing
//! here knows a type; whether a value fits is found by trying it on the defaults.

use super::Config;
use super::complaint::{Complaint, Origin, nearest};
use super::settings::{Setting, defaults, setting, settings};
use crate::units::Span;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

/// One value as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Raw {
    /// Path; below a map, with the entry's name.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
}

/// Takes a settings file apart. A file that is no TOML gives complaints only.
pub(super) fn from_file(name: &str, text: &str) -> (Vec<Raw>, Vec<Complaint>) {
    let line_at = |offset: usize| {
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    };
    let origin = |line| Origin::File {
        name: name.to_string(),
        line,
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut complaints: Vec<Complaint> = errors
        .iter()
        .map(|error| Complaint {
            origin: origin(error.span().map(|span| line_at(span.start))),
            key: None,
            message: format!("not TOML: {}", error.message()),
        })
        .collect();
    if !complaints.is_empty() {
        return (Vec::new(), complaints);
    }
    let mut raws = Vec::new();
    let mut todo: Vec<(String, &DeTable<'_>)> = vec![(String::new(), table.get_ref())];
    while let Some((path, table)) = todo.pop() {
        for (name, value) in table {
            let key = match path.as_str() {
                "" => name.get_ref().to_string(),
                path => format!("{path}.{}", name.get_ref()),
            };
            let origin = origin(Some(line_at(name.span().start)));
            match (value.get_ref(), place(&key)) {
                (DeValue::Table(inner), Place::Section | Place::Map) => {
                    todo.push((key, inner));
                }
                (_, Place::Section) => complaints.push(Complaint {
                    origin,
                    message: "is a section, not a value".into(),
                    key: Some(key),
                }),
                (_, Place::Map) => complaints.push(Complaint {
                    origin,
                    message: "is a table of entries, not a value".into(),
                    key: Some(key),
                }),
                (_, Place::Nowhere) => complaints.push(unknown(&key, origin)),
                (value, Place::Leaf | Place::Entry) => match plain(value) {
                    Ok(value) => raws.push(Raw { key, value, origin }),
                    Err(message) => complaints.push(Complaint {
                        origin,
                        key: Some(key),
                        message,
                    }),
                },
            }
        }
    }
    (raws, complaints)
}

/// Takes the settings out of an environment.
pub(super) fn from_environment(
    variables: impl IntoIterator<Item = (String, String)>,
) -> (Vec<Raw>, Vec<Complaint>) {
    let mut raws = Vec::new();
    let mut complaints = Vec::new();
    for (name, text) in variables {
        if !name.starts_with("SELVAGE_") || is_not_ours(&name) {
            continue;
        }
        let origin = Origin::Environment(name.clone());
        match settings().iter().find(|setting| setting.env == name) {
            Some(setting) => take_text(setting, &text, origin, &mut raws, &mut complaints),
            None => {
                let known = settings().iter().map(|setting| setting.env.as_str());
                complaints.push(Complaint {
                    message: format!("no such setting{}", suggestion(&name, known)),
                    key: None,
                    origin,
                });
            }
        }
    }
    (raws, complaints)
}

/// Variables with our prefix that are no settings: what Kubernetes sets for a Service called
/// `selvage` or `selvage-…` (SELVAGE_SERVICE_HOST, SELVAGE_PORT_9949_TCP_ADDR), and what tests set.
fn is_not_ours(name: &str) -> bool {
    let port = |(_, after): (&str, &str)| after.starts_with(|c: char| c.is_ascii_digit());
    matches!(name, "SELVAGE_CONFIG" | "SELVAGE_CORPUS")
        || name.starts_with("SELVAGE_TEST_")
        || name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.rsplit_once("_PORT_").is_some_and(port)
}

/// Takes the text of one flag or variable, in the form that the setting's default has.
pub(super) fn take_text(
    setting: &Setting,
    text: &str,
    origin: Origin,
    raws: &mut Vec<Raw>,
    complaints: &mut Vec<Complaint>,
) {
    let key = setting.key.clone();
    match typed(setting, text) {
        Ok(value) => raws.push(Raw { key, value, origin }),
        Err(message) => complaints.push(Complaint {
            origin,
            key: Some(key),
            message,
        }),
    }
}

fn typed(setting: &Setting, text: &str) -> Result<Value, String> {
    let number = || -> Option<Value> {
        let whole = text.parse::<i64>().ok().map(Value::from);
        let real = || text.parse::<f64>().ok().filter(|real| real.is_finite());
        whole.or_else(|| real().map(Value::from))
    };
    let boolean = || match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(Value::Bool(true)),
        "false" | "no" | "off" | "0" => Some(Value::Bool(false)),
        _ => None,
    };
    match &setting.default {
        Value::Bool(_) => boolean().ok_or_else(|| format!("{text:?} is neither true nor false")),
        Value::Number(_) => number().ok_or_else(|| format!("{text:?} is no number")),
        Value::Array(_) => Ok(text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(Value::from)
            .collect()),
        // Nothing by default, so that nothing tells the type: the first that fits.
        Value::Null if text.parse::<f64>().is_ok_and(|number| !number.is_finite()) => {
            Err(format!("{text} is no finite number"))
        }
        Value::Null => Ok([number(), boolean()]
            .into_iter()
            .flatten()
            .find(|value| trial(&setting.key, value).is_ok())
            .unwrap_or_else(|| Value::from(text))),
        Value::String(_) | Value::Object(_) => Ok(Value::from(text)),
    }
}

/// Lays the layers over the defaults, the last word on a key wins. Every value is tried alone, so
/// that each wrong one is complained about and one does not hide the next.
pub(super) fn merge(raws: &[Raw], complaints: &mut Vec<Complaint>) -> Option<Config> {
    let mut merged = defaults();
    for raw in raws {
        match trial(&raw.key, &raw.value) {
            Ok(()) => put(&mut merged, &raw.key, raw.value.clone()),
            Err(message) => complaints.push(Complaint {
                origin: raw.origin.clone(),
                key: Some(raw.key.clone()),
                message,
            }),
        }
    }
    match serde_json::from_value(merged) {
        Ok(config) => Some(config),
        Err(error) => {
            complaints.push(Complaint {
                origin: Origin::Default,
                key: None,
                message: format!("the settings do not fit together: {error}"),
            });
            None
        }
    }
}

fn trial(key: &str, value: &Value) -> Result<(), String> {
    let mut alone = defaults();
    put(&mut alone, key, value.clone());
    serde_json::from_value::<Config>(alone)
        .map(|_| ())
        .map_err(|error| hint(key, value).unwrap_or_else(|| error.to_string()))
}

/// What to write where the value is of another type than the setting.
fn hint(key: &str, value: &Value) -> Option<String> {
    let setting = match (setting(key), map_of(key)) {
        (Some(setting), _) => setting,
        (None, Some(_)) => {
            let within = value.get("within").filter(|within| within.is_number())?;
            return Some(format!("within: {}", unit_missing(within)));
        }
        _ => return None,
    };
    match (&setting.default, value) {
        (Value::String(default), Value::Number(_)) if is_time(default) => Some(unit_missing(value)),
        (Value::String(_), Value::Number(_) | Value::Bool(_)) => {
            Some(format!("is a text: write \"{value}\""))
        }
        (Value::Array(_), Value::String(_)) => Some(format!("is a list: write [{value}]")),
        (Value::Array(_), _) => Some("is a list of names: write [\"mlx5_0\"]".into()),
        (Value::Bool(_), _) => Some(format!("{value} is neither true nor false")),
        (Value::Number(_) | Value::Null, Value::String(text)) if text.parse::<f64>().is_ok() => {
            Some(format!("is a number: write {text}"))
        }
        _ => None,
    }
}

fn unit_missing(value: &Value) -> String {
    format!("a length of time has a unit: write \"{value}s\"")
}

fn is_time(text: &str) -> bool {
    text.parse::<Span>().is_ok()
}

fn put(tree: &mut Value, key: &str, value: Value) {
    let mut at = tree;
    // A map's entry may hold dots in its name; it is the last part whatever it holds.
    let (path, entry) = match place(key) {
        Place::Entry => {
            let map = map_of(key).map_or(key, |map| map.key.as_str());
            (map, key.strip_prefix(map).and_then(|e| e.strip_prefix('.')))
        }
        _ => (key, None),
    };
    for part in path.split('.').chain(entry) {
        let Value::Object(fields) = at else {
            return;
        };
        at = fields.entry(part).or_insert(Value::Null);
    }
    *at = value;
}

/// What a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Section,
    Leaf,
    Map,
    Entry,
    Nowhere,
}

fn place(key: &str) -> Place {
    match setting(key) {
        Some(setting) if setting.is_map() => return Place::Map,
        Some(_) => return Place::Leaf,
        None => {}
    }
    let is_section = |setting: &Setting| {
        let rest = setting.key.strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    if settings().iter().any(is_section) {
        Place::Section
    } else if map_of(key).is_some() {
        Place::Entry
    } else {
        Place::Nowhere
    }
}

fn map_of(key: &str) -> Option<&'static Setting> {
    settings().iter().find(|setting| {
        let rest = key.strip_prefix(setting.key.as_str());
        setting.is_map() && rest.is_some_and(|rest| rest.starts_with('.'))
    })
}

fn unknown(key: &str, origin: Origin) -> Complaint {
    let mut sections: Vec<&str> = Vec::new();
    for setting in settings() {
        let (section, _) = setting.section_and_name();
        if sections.last() != Some(&section) {
            sections.push(section);
        }
    }
    let known = settings().iter().map(|setting| setting.key.as_str());
    Complaint {
        origin,
        message: format!("no such setting{}", suggestion(key, known.chain(sections))),
        key: Some(key.to_string()),
    }
}

fn suggestion<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(written, known.filter(|name| !name.is_empty()))
        .map_or(String::new(), |near| format!("; did you mean {near}?"))
}

/// A parsed TOML value as a plain one.
fn plain(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::String(text) => Ok(Value::from(text.as_ref())),
        DeValue::Boolean(value) => Ok(Value::from(*value)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|error| format!("{}: {error}", number.as_str())),
        DeValue::Float(number) => number
            .as_str()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from)
            .ok_or_else(|| format!("{} is no finite number", number.as_str())),
        DeValue::Datetime(_) => Err("a date is no value of any setting".into()),
        DeValue::Array(items) => items.iter().map(|item| plain(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(name, value)| Ok((name.get_ref().to_string(), plain(value.get_ref())?)))
            .collect(),
    }
}
