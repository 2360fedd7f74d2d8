//! Settings: raw as written, then validated; every complaint at once.
