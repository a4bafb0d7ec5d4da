//! `mpisee-serve`.

fn main() -> std::process::ExitCode {
    mpisee_serve::main()
}
