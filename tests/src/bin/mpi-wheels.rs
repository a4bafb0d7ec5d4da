//! Installs the MPIs of Python's package index that have a compiler wrapper, below `target/venvs`,
//! and prints the folders of their programs, one per line: `PATH=$PATH:FOLDER cargo xtask dist`
//! builds flavours for them.

use mpisee_tests::python::Stack;

fn main() {
    for stack in Stack::with_compiler() {
        println!("{}", stack.install().programs_folder().display());
    }
}
