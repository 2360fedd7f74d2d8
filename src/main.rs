//! The `selvage` binary: see the library for everything.

fn main() -> std::process::ExitCode {
    selvage::cli::run::main()
}
