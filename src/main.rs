//! The `selvage` binary; everything is in the library.

fn main() -> std::process::ExitCode {
    selvage::cli::run::main()
}
