//! The commands by the task that they are for, as `--help` lists them.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

/// A group of commands.
pub struct Group {
    /// The word that `help` takes.
    pub topic: &'static str,
    /// The line above its commands.
    pub heading: &'static str,
    /// The number of its commands; those of all groups are in the order of the definition.
    pub size: usize,
}

/// Returns the group that `help TOPIC` asks for, unless there is a file of that name.
pub fn topic(arguments: &[OsString], groups: &'static [Group]) -> Option<&'static Group> {
    let [_, help, topic] = arguments else { return None };
    let is_help = help == "help" && !Path::new(help).exists();
    groups.iter().find(|group| is_help && topic.eq_ignore_ascii_case(group.topic))
}

/// Lists the commands of all groups, one line each.
pub fn list(definition: &clap::Command, groups: &[Group]) -> String {
    let mut text = String::new();
    for (group, commands) in with_commands(definition, groups) {
        text += &format!("{}:\n", group.heading);
        for command in commands {
            writeln!(text, "  {:<17}{}", command.get_name(), about(command)).expect("text grows");
        }
        text.push('\n');
    }
    text
}

/// Lists the commands of a group with their examples.
pub fn explain(definition: &clap::Command, groups: &[Group], group: &Group) -> String {
    let mut text = format!("{}\n", group.heading);
    let mut all = with_commands(definition, groups);
    let (_, commands) = all.find(|(each, _)| each.topic == group.topic).expect("the group is one of them");
    for command in commands {
        write!(text, "\n{}: {}\n", command.get_name(), about(command)).expect("text grows");
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in examples.lines().filter(|line| line.trim_start().starts_with("mpi")) {
            writeln!(text, "{line}").expect("text grows");
        }
    }
    text + "\n`mpisee-through COMMAND --help` has the options.\n"
}

/// Pairs each group with its commands.
fn with_commands<'a>(
    definition: &'a clap::Command,
    groups: &'a [Group],
) -> impl Iterator<Item = (&'a Group, Vec<&'a clap::Command>)> {
    let mut commands = definition.get_subcommands();
    groups.iter().map(move |group| (group, commands.by_ref().take(group.size).collect()))
}

fn about(command: &clap::Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}
