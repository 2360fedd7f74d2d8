//! A section of the settings: fields with their words and defaults side by side, told once. Help,
//! `selvage config` and docs/config.md come from the same doc comments.

/// Declares a settings struct. Each field: doc comments, `name: Type = default,`. Gives the struct
/// with `Default`, serde (unknown keys refused, missing ones defaulted), and `HELP`: each field's
/// name with its doc text, in order.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident {
        $($(#[doc = $field_doc:literal])* $(#[serde($($serde:tt)*)])? $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $field_doc])* $(#[serde($($serde)*)])? pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            /// Each field's name with its help text.
            pub const HELP: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($field_doc, "\n"),*)),)*];
        }
    };
}

pub(crate) use section;
