//! Declares a section of the settings. Each field's documentation and default stand side by side and
//! are the only source of `selvage config`, `--help` and docs/config.md.

/// A setting, or a section of settings.
#[derive(Debug)]
pub struct Field {
    /// Its name within the section.
    pub name: &'static str,
    /// What it is for, from its doc comment.
    pub help: &'static str,
    /// The fields of a section.
    pub section: Option<&'static [Field]>,
}

/// Declares a struct whose fields stand next to their defaults: `name: Type = default,`.
macro_rules! defaults {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }
    };
}

/// Declares settings structs from fields written as doc comments and `name: Type = default,`, or
/// `name: Type,` for a section within it. Generates for each the struct, `Default`, serde (unknown keys refused,
/// missing ones defaulted) and `FIELDS`.
macro_rules! section {
    (@default $type:ty) => { <$type>::default() };
    (@default $type:ty, $default:expr) => { $default };
    (@section $type:ty) => { Some(<$type>::FIELDS) };
    (@section $type:ty, $default:expr) => { None };
    ($($(#[$doc:meta])* $name:ident {
        $($(#[doc = $field_doc:literal])* $(#[serde($($serde:tt)*)])? $field:ident: $type:ty $(= $default:expr)?,)*
    })+) => {$(
        $crate::settings_macro::defaults! {
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
            #[serde(default, deny_unknown_fields)]
            $name {
                $(
                    $(#[doc = $field_doc])* $(#[serde($($serde)*)])?
                    $field: $type = section!(@default $type $(, $default)?),
                )*
            }
        }

        impl $name {
            /// Its fields, in order.
            pub const FIELDS: &'static [$crate::settings_macro::Field] = &[$(
                $crate::settings_macro::Field {
                    name: stringify!($field),
                    help: concat!($($field_doc, "\n"),*),
                    section: section!(@section $type $(, $default)?),
                }
            ),*];
        }
    )+};
}

/// Declares enums whose variants go by one name each in JSON, labels, metrics and settings.
/// Generates serde, `ALL` and `as_str`.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The name in JSON, labels, metrics and settings.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    )+};
}

pub(crate) use {defaults, section, words};
