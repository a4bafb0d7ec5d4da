//! `mpisee`; the library has all of it, so that manual pages can be made from the command line's
//! definition.

fn main() -> std::process::ExitCode {
    mpisee::main()
}
