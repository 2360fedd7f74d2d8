//! Raw layers: what a file, the environment and the command line say, as keys with values and origins.
//! Nothing here knows a setting's type; whether a value fits is found by trying it on the defaults.

use super::complaint::suggestion;
use super::settings::{Setting, defaults, setting, settings};
use super::{Complaint, Config, Origin};
use crate::units::Span;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

/// One value as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Raw {
    /// The setting's path; below a map, with the entry's name.
    pub key: String,
    /// The value, which may be of the wrong type.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
}

/// Everything that was written, in the order in which later values win.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// Values of known settings.
    pub raws: Vec<Raw>,
    /// What cannot be used.
    pub complaints: Vec<Complaint>,
    /// What is ignored: unknown environment variables with our prefix.
    pub warnings: Vec<Complaint>,
}

impl Layers {
    pub fn refuse(&mut self, origin: Origin, key: &str, message: impl Into<String>) {
        self.complaints.push(complaint(origin, key, message));
    }

    fn add(&mut self, origin: Origin, key: &str, value: Result<Value, String>) {
        match value {
            Ok(value) => {
                let key = key.to_string();
                self.raws.push(Raw { key, value, origin });
            }
            Err(message) => self.refuse(origin, key, message),
        }
    }

    /// Adds a settings file. A file that is not TOML adds complaints only.
    pub fn file(&mut self, name: &str, text: &str) {
        let origin = |offset: Option<usize>| Origin::File {
            name: name.to_string(),
            line: offset.map(|offset| {
                let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
                before.iter().filter(|byte| **byte == b'\n').count() + 1
            }),
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = origin(error.span().map(|span| span.start));
            self.refuse(at, "", format!("not TOML: {}", error.message()));
        }
        if errors.is_empty() {
            self.table("", table.get_ref(), &origin);
        }
    }

    fn table(&mut self, path: &str, table: &DeTable<'_>, from: &impl Fn(Option<usize>) -> Origin) {
        for (name, value) in table {
            let key = format!("{path}.{}", name.get_ref());
            let key = key.trim_start_matches('.');
            let at = from(Some(name.span().start));
            match (value.get_ref(), named(key)) {
                (DeValue::Table(inner), Named::Section | Named::Map) => {
                    self.table(key, inner, from);
                }
                (value, named) => self.value(at, key, named, || plain(value)),
            }
        }
    }

    /// Adds a value that is not taken apart further.
    fn value(
        &mut self,
        origin: Origin,
        key: &str,
        named: Named,
        value: impl FnOnce() -> Result<Value, String>,
    ) {
        match named {
            Named::Section => self.refuse(origin, key, "is a section, not a value"),
            Named::Map => self.refuse(origin, key, "is a table of entries: write KEY.ENTRY={ … }"),
            Named::Nowhere => {
                let keys = settings().iter().map(|setting| setting.key.as_str());
                let sections = settings().iter().map(|of| of.section_and_name().0);
                let meant = suggestion(key, keys.chain(sections));
                self.refuse(origin, key, format!("no such setting{meant}"));
            }
            Named::Leaf(_) | Named::Entry(_) => self.add(origin, key, value()),
        }
    }

    /// Adds the variables that name settings. Unknown ones are ignored with a warning: containers
    /// inherit variables that are not meant for us.
    pub fn environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let of_commands = |name: &str| COMMANDS.iter().any(|prefix| name.starts_with(prefix));
        for (name, text) in variables {
            match settings().iter().find(|setting| setting.env == name) {
                // Unset, unless the setting takes it for a value.
                Some(setting) if text.is_empty() && !takes_empty(setting) => {}
                Some(setting) => self.text(Origin::Environment(name), setting, &text),
                None if of_commands(&name) => {}
                None => self.warnings.extend(unknown_variable(&name, &[])),
            }
        }
    }

    /// Adds the text of one flag or variable.
    pub fn text(&mut self, origin: Origin, setting: &Setting, text: &str) {
        self.add(origin, &setting.key, typed(Some(setting), text));
    }

    /// Adds one `--set key=value`.
    pub fn set(&mut self, written: &str) {
        let origin = Origin::Flag("set".into());
        match written.split_once('=') {
            None => {
                let message = format!("{written:?} is not of the form key=value");
                self.refuse(origin, "", message);
            }
            Some((key, text)) => {
                let key = key.trim();
                let named = named(key);
                if let (Named::Section, Ok(parsed)) = (&named, DeValue::parse(text))
                    && let DeValue::Table(table) = parsed.get_ref()
                {
                    return self.table(key, table, &|_| origin.clone());
                }
                let setting = match named {
                    Named::Leaf(setting) => Some(setting),
                    _ => None,
                };
                self.value(origin, key, named, || typed(setting, text));
            }
        }
    }

    /// Lays the layers over the defaults; the last value of a key wins. Every value is tried alone,
    /// so that each wrong one is reported and none hides the next.
    pub fn merge(&mut self) -> Option<Config> {
        let mut merged = defaults();
        for raw in &self.raws {
            match trial(&raw.key, &raw.value) {
                Ok(()) => put(&mut merged, &raw.key, raw.value.clone()),
                Err(message) => {
                    let origin = raw.origin.clone();
                    self.complaints.push(complaint(origin, &raw.key, message));
                }
            }
        }
        serde_json::from_value(merged)
            .map_err(|error| {
                let message = format!("the settings do not fit together: {error}");
                self.refuse(Origin::Default, "", message);
            })
            .ok()
    }

    /// Where a key, an entry of it or a part of it was written last.
    pub fn origin_of(&self, key: &str) -> Origin {
        let within = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let said = |raw: &&Raw| within(&raw.key, key) || within(key, &raw.key);
        let last = self.raws.iter().rev().find(said);
        last.map_or(Origin::Default, |raw| raw.origin.clone())
    }
}

fn complaint(origin: Origin, key: &str, message: impl Into<String>) -> Complaint {
    Complaint {
        origin,
        key: (!key.is_empty()).then(|| key.to_string()),
        message: message.into(),
    }
}

/// Prefixes of variables that commands without settings read.
const COMMANDS: [&str; 2] = ["SELVAGE_SIDECAR_", "SELVAGE_PREFLIGHT_"];

/// A warning about a variable with our prefix that is neither a setting nor one of `others`.
fn unknown_variable(name: &str, others: &[&str]) -> Option<Complaint> {
    let known = settings().iter().map(|setting| setting.env.as_str());
    let mut known = known.chain(others.iter().copied());
    if !name.starts_with("SELVAGE_") || is_foreign(name) || known.clone().any(|of| of == name) {
        return None;
    }
    let message = format!("no such setting{}", suggestion(name, &mut known));
    Some(complaint(Origin::Environment(name.into()), "", message))
}

/// Warnings for a command without settings, which reads the variables `own`.
pub fn unknown_variables(own: &[&str]) -> Vec<Complaint> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown = |name: String| unknown_variable(&name, own);
    names.filter_map(unknown).collect()
}

/// Variables with our prefix that are not settings: what Kubernetes sets for a Service called
/// `selvage` or `selvage-…` (SELVAGE_SERVICE_HOST, SELVAGE_PORT_9949_TCP_ADDR), and what tests set.
fn is_foreign(name: &str) -> bool {
    let port = |(_, after): (&str, &str)| after.starts_with(|c: char| c.is_ascii_digit());
    matches!(name, "SELVAGE_CONFIG" | "SELVAGE_CORPUS")
        || name.starts_with("SELVAGE_TEST_")
        || name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.rsplit_once("_PORT_").is_some_and(port)
}

fn takes_empty(setting: &Setting) -> bool {
    typed(Some(setting), "").is_ok_and(|value| trial(&setting.key, &value).is_ok())
}

/// The value of a text: TOML where it is a list, a table or quoted; else by the default's type.
fn typed(setting: Option<&Setting>, text: &str) -> Result<Value, String> {
    if text.starts_with(['[', '{', '"', '\''])
        && let Ok(value) = DeValue::parse(text)
    {
        return plain(value.get_ref());
    }
    let number = || Some(Value::Number(text.parse().ok()?));
    let boolean = || match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(Value::Bool(true)),
        "false" | "no" | "off" | "0" => Some(Value::Bool(false)),
        _ => None,
    };
    let Some(setting) = setting else {
        return Ok(Value::from(text));
    };
    match &setting.default {
        Value::Bool(_) => boolean().ok_or_else(|| format!("{text:?} is neither true nor false")),
        Value::Number(_) => number().ok_or_else(|| format!("{text:?} is not a number")),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim);
            let items = items.filter(|item| !item.is_empty());
            Ok(items.map(Value::from).collect())
        }
        // Without a default the type is unknown: the first that fits.
        Value::Null => {
            let mut readings = [number(), boolean()].into_iter().flatten();
            let fits = readings.find(|value| trial(&setting.key, value).is_ok());
            Ok(fits.unwrap_or_else(|| Value::from(text)))
        }
        Value::String(_) | Value::Object(_) => Ok(Value::from(text)),
    }
}

/// Whether the defaults with this one value deserialise.
fn trial(key: &str, value: &Value) -> Result<(), String> {
    let mut alone = defaults();
    put(&mut alone, key, value.clone());
    serde_json::from_value::<Config>(alone)
        .map(|_| ())
        .map_err(|error| hint(key, value).unwrap_or_else(|| error.to_string()))
}

/// What to write instead of a value of the wrong type.
fn hint(key: &str, value: &Value) -> Option<String> {
    let unit = |value: &Value| format!("a length of time has a unit: write \"{value}s\"");
    let setting = match named(key) {
        Named::Leaf(setting) => setting,
        _ if !value.is_object() => return Some("an entry is a table: write ENTRY={ … }".into()),
        _ => {
            let within = value.get("within").filter(|within| within.is_number())?;
            return Some(format!("within: {}", unit(within)));
        }
    };
    match (&setting.default, value) {
        (Value::String(default), Value::Number(_)) if default.parse::<Span>().is_ok() => {
            Some(unit(value))
        }
        (Value::String(_), Value::Number(_) | Value::Bool(_)) => {
            Some(format!("is a text: write \"{value}\""))
        }
        (Value::Array(_), Value::String(_)) => Some(format!("is a list: write [{value}]")),
        (Value::Array(_), _) => Some("is a list of names: write [\"mlx5_0\"]".into()),
        (Value::Bool(_), _) => Some(format!("{value} is neither true nor false")),
        (Value::Number(_) | Value::Null, Value::String(text)) => {
            if !text.parse::<f64>().ok()?.is_finite() {
                return Some(format!("{text} is not a finite number"));
            }
            let number = serde_json::from_str(text).ok()?;
            trial(key, &number).ok()?;
            Some(format!("is a number: write {number}"))
        }
        _ => None,
    }
}

fn put(tree: &mut Value, key: &str, value: Value) {
    // The name of a map's entry may contain dots; it is always the last part.
    let (path, entry) = match named(key) {
        Named::Entry(map) => {
            let entry = key.strip_prefix(&map.key).and_then(|e| e.strip_prefix('.'));
            (map.key.as_str(), entry)
        }
        _ => (key, None),
    };
    let mut at = tree;
    for part in path.split('.').chain(entry) {
        let Value::Object(fields) = at else { return };
        at = fields.entry(part).or_insert(Value::Null);
    }
    *at = value;
}

/// What a key names.
#[derive(Clone, Copy)]
enum Named {
    /// A section of settings.
    Section,
    /// A setting with one value.
    Leaf(&'static Setting),
    /// A setting whose entries the operator names.
    Map,
    /// An entry of that map.
    Entry(&'static Setting),
    /// Neither a section nor a setting.
    Nowhere,
}

fn named(key: &str) -> Named {
    if let Some(setting) = setting(key) {
        return match setting.is_map() {
            true => Named::Map,
            false => Named::Leaf(setting),
        };
    }
    let below = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    if settings().iter().any(|setting| below(&setting.key, key)) {
        return Named::Section;
    }
    let mut maps = settings().iter().filter(|setting| setting.is_map());
    let map = maps.find(|map| below(key, &map.key));
    map.map_or(Named::Nowhere, Named::Entry)
}

/// A parsed TOML value as a plain one.
fn plain(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::String(text) => Ok(Value::from(text.as_ref())),
        DeValue::Boolean(value) => Ok(Value::from(*value)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|error| format!("{}: {error}", number.as_str())),
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::from(number)),
            _ => Err(format!("{} is not a finite number", number.as_str())),
        },
        DeValue::Datetime(_) => Err("a date is not a value of any setting".into()),
        DeValue::Array(items) => items.iter().map(|item| plain(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(name, value)| Ok((name.get_ref().to_string(), plain(value.get_ref())?)))
            .collect(),
    }
}
