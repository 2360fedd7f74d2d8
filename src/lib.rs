//! selvage
