//! Manual pages and shell completions of all commands, as an installation has them in `share`; and
//! the documentation's list of commands.

use clap::Command;
use clap_complete::{Shell, generate_to};
use std::io;
use std::path::Path;

pub mod reference;

/// The folder in which each shell looks for completions.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

/// The command lines of the programs that users type.
pub fn programs() -> [Command; 3] {
    [mpisee::command(), mpisee_through::command(), mpisee_bench::cli::command()]
}

/// Writes manual pages and shell completions below a folder.
pub fn write(folder: &Path) -> io::Result<()> {
    for command in programs() {
        for (shell, place) in COMPLETIONS {
            write_completions(shell, &folder.join(place), command.clone())?;
        }
        let manuals = folder.join("man/man1");
        std::fs::create_dir_all(&manuals)?;
        clap_mangen::generate_to(command, &manuals)?;
    }
    Ok(())
}

fn write_completions(shell: Shell, folder: &Path, mut command: Command) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = command.get_name().to_owned();
    let written = generate_to(shell, &mut command, &name, folder)?;
    if shell == Shell::Bash {
        // Bash looks for a file that is called like the command.
        std::fs::rename(written, folder.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_completions() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("man/man1/mpisee.1").contains("MPISEE_OUTPUT"));
        assert!(read("man/man1/mpisee-through.1").contains("advise"));
        assert!(read("man/man1/mpisee-bench.1").contains("EXAMPLES"));
        for command in mpisee_through::command().get_subcommands() {
            let page = read(&format!("man/man1/mpisee-through-{}.1", command.get_name()));
            assert!(page.contains("EXAMPLES"), "{page}");
        }
        for name in ["mpisee", "mpisee-through", "mpisee-bench"] {
            assert!(read(&format!("bash-completion/completions/{name}")).contains("complete -F"));
            assert!(read(&format!("zsh/site-functions/_{name}")).starts_with("#compdef"));
            assert!(read(&format!("fish/vendor_completions.d/{name}.fish")).contains("complete -c"));
        }
    }
}
