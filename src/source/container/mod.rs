//! What a container can see of the fabric from inside, without privileges: each reader is one
//! bounded look, to be given up by its caller where it hangs.

pub mod cufile;
pub mod dynamic;
pub mod elf;
pub mod environment;
pub mod interfaces;
pub mod libraries;
pub mod limits;
pub mod master;
pub mod named;
pub mod nodes;
pub mod shm;
