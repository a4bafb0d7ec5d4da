//! The command to type next, which is the last line of an answer for people.

use mpisee_profile::Profile;

/// The last line of an answer: `→ mpisee-through waits app.mpisee: which rank is late`.
pub fn line(profile: &Profile, command: &str, question: &str) -> String {
    format!("→ mpisee-through {command} {}: {question}\n", shell_name(profile))
}

/// The folder of a profile as a shell takes it.
pub fn shell_name(profile: &Profile) -> String {
    let name = profile.directory().display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=,@%".contains(letter);
    if name.chars().all(is_plain) { name } else { format!("'{}'", name.replace('\'', r"'\''")) }
}
