//! Paths in texts: formats and options hold text, and a path may have any bytes; and paths in
//! commands that users paste into a shell.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The first of 256 characters for private use, each of which stands for a byte that is not UTF-8.
const FIRST: u32 = 0x10_FE00;

/// A text that stands for a path; text stays as it is.
pub fn to_text(path: &OsStr) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|&byte| char::from_u32(FIRST + u32::from(byte))));
    }
    text
}

/// The path for which [`to_text`] made a text.
pub fn from_text(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match u32::from(letter).checked_sub(FIRST).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// A path as an argument of a command, see [`shell_word`]; it is never taken for an option.
pub fn shell_path(path: &Path) -> String {
    match path.as_os_str().as_bytes().starts_with(b"-") {
        true => shell_word(Path::new(".").join(path).as_os_str()),
        false => shell_word(path.as_os_str()),
    }
}

/// A word of a command as one would type it: in quotes where it needs them. What is no text, or
/// would change a terminal, is written as bash, zsh, ksh and POSIX of 2024 read it.
pub fn shell_word(word: &OsStr) -> String {
    match word.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        Some(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => in_bytes(word.as_bytes()),
    }
}

/// Returns whether a character has no meaning for a shell.
fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || "-_./=:,+@%".contains(letter)
}

/// A word in `$'…'`, with the bytes that are no text, and control characters, as numbers.
fn in_bytes(bytes: &[u8]) -> String {
    let mut word = "$'".to_owned();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\'' | '\\' => word.extend(['\\', letter]),
                _ if letter.is_control() => {
                    letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_octal(&mut word, byte));
                }
                _ => word.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_octal(&mut word, byte));
    }
    word + "'"
}

fn push_octal(word: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(word, "\\{byte:03o}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const ODD: [&[u8]; 6] =
        [b"plain/a.mpisee", b"my app", b"it's", b"caf\xe9\xff", "caf\u{e9}".as_bytes(), b"a\nb\\'\x1b\xff7"];

    #[test]
    fn any_bytes_survive_as_text() {
        for bytes in ODD {
            let path = OsStr::from_bytes(bytes);
            assert_eq!(from_text(&to_text(path)), Path::new(path));
        }
        assert_eq!(to_text("gr\u{fc}n".as_ref()), "gr\u{fc}n");
    }

    #[test]
    fn a_shell_reads_the_path_that_was_meant() {
        for bytes in ODD {
            let word = shell_path(Path::new(OsStr::from_bytes(bytes)));
            let printed = Command::new("bash").args(["-c", &format!("printf %s {word}")]).output().unwrap();
            assert_eq!(printed.stdout, bytes, "{word}");
            assert!(!word.chars().any(char::is_control));
        }
    }

    #[test]
    fn quotes_are_there_where_they_are_needed() {
        assert_eq!(shell_path(Path::new("-dash.mpisee")), "./-dash.mpisee");
        assert_eq!(shell_path(Path::new("/a/b.mpisee")), "/a/b.mpisee");
        assert_eq!(shell_path(Path::new("two words")), "'two words'");
        assert_eq!(shell_word("it's".as_ref()), r"'it'\''s'");
        assert_eq!(shell_word("".as_ref()), "''");
        assert_eq!(shell_word(OsStr::from_bytes(b"\xe9'")), r"$'\351\''");
    }
}
