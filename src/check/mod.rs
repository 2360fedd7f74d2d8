//! Judgements.
pub mod xid_codes;
