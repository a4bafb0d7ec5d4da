//! Text from profiles, made harmless: applications choose labels, regions and file names, and
//! anyone may have written a profile.
//!
//! Characters that move the cursor, change the terminal, end a line or turn the direction of
//! writing are shown as `\u{1b}`. Cells and sentences pass [`printable`]; whatever does not is
//! caught where a finished text is written, by [`on_terminal`].

use std::borrow::Cow;
use std::io;

/// Returns whether a terminal or a browser obeys the character rather than showing it: control
/// characters, separators of lines, and what overrides or isolates the direction of writing.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text on one line in which nothing is obeyed.
pub fn printable(text: &str) -> String {
    escaped(text, |letter| letter.escape_default().to_string()).into_owned()
}

/// The text with what would be obeyed replaced.
fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|letter| if is_obeyed(letter) { escape(letter) } else { letter.to_string() }).collect()
}

/// A finished text of several lines; with `colour` also the sequences that choose colours.
pub fn on_terminal(text: &str, colour: bool) -> Cow<'_, str> {
    // PERF: as a rule there is nothing to do.
    if !text.contains(|letter| is_obeyed(letter) && letter != '\n') {
        return Cow::Borrowed(text);
    }
    let mut harmless = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '\u{1b}' if colour => colour_sequence(rest).unwrap_or(0),
            '\n' => 1,
            _ if !is_obeyed(letter) => letter.len_utf8(),
            _ => 0,
        };
        if length == 0 {
            harmless.extend(letter.escape_default());
        }
        let (shown, after) = rest.split_at(length.max(letter.len_utf8()));
        harmless.push_str(&shown[..length]);
        rest = after;
    }
    Cow::Owned(harmless)
}

/// The length of the sequence at the begin of the text, if it chooses a colour or the weight of
/// letters.
fn colour_sequence(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|letter: char| !letter.is_ascii_digit() && letter != ';')?;
    parameters[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
}

/// JSON in which what would be obeyed is written as JSON escapes it: the value stays the same.
pub fn in_json(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| is_obeyed(letter) && letter != '\n') {
        return Cow::Borrowed(text);
    }
    let escape = |letter: char| match letter {
        // Between values; in them it is escaped already.
        '\n' => "\n".to_owned(),
        _ => format!("\\u{:04x}", u32::from(letter)),
    };
    escaped(text, escape)
}

/// Writes JSON for a browser: in its texts, what would be obeyed is replaced as on a terminal.
pub struct ForBrowser;

impl serde_json::ser::Formatter for ForBrowser {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let escape = |letter: char| format!("\\{}", letter.escape_default());
        writer.write_all(escaped(fragment, escape).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    const FORGED: &str = "grün\u{1b}[2J\n\u{9b}5n\u{7f}\u{202e}exe\u{2066}\u{2028}";
    const SHOWN: &str = "grün\\u{1b}[2J\\n\\u{9b}5n\\u{7f}\\u{202e}exe\\u{2066}\\u{2028}";

    #[test]
    fn nothing_that_is_obeyed_reaches_the_terminal() {
        assert_eq!(printable(FORGED), SHOWN);
        assert_eq!(printable("مرحبا שלום 日本 🙂"), "مرحبا שלום 日本 🙂");
        assert_eq!(on_terminal(FORGED, true), SHOWN.replace("\\n", "\n"));
        let bold = "\u{1b}[1mW\u{1b}[0m \u{1b}[38;5;11m5\u{1b}[39m\n";
        assert_eq!(on_terminal(bold, true), bold);
        assert!(!on_terminal(bold, false).contains('\u{1b}'));
        assert_eq!(on_terminal("\u{1b}[1;", true), "\\u{1b}[1;");
        assert_eq!(on_terminal("\u{1b}]0;title\u{7}", true), "\\u{1b}]0;title\\u{7}");
    }

    #[test]
    fn json_keeps_its_values() {
        let text = serde_json::to_string_pretty(&[FORGED]).unwrap();
        let harmless = in_json(&text);
        assert!(!harmless.contains(|letter| is_obeyed(letter) && letter != '\n'), "{harmless}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&harmless).unwrap(), [FORGED]);
    }

    #[test]
    fn a_browser_gets_texts_that_it_shows() {
        let mut json = Vec::new();
        FORGED.serialize(&mut serde_json::Serializer::with_formatter(&mut json, ForBrowser)).unwrap();
        let shown: String = serde_json::from_slice(&json).unwrap();
        assert!(shown.contains("\\u{202e}exe\\u{2066}") && !shown.contains('\u{202e}'), "{shown}");
    }
}
