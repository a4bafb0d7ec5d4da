//! Breaks text into lines.

/// The words of a text in lines of at most `width` characters; a longer word is broken.
pub fn broken(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut room = width;
    for word in text.split(' ') {
        let length = word.chars().count();
        let is_first = room == width;
        if !is_first && length + 1 > room {
            lines.push(String::new());
            room = width;
        } else if !is_first {
            push(&mut lines, " ");
            room -= 1;
        }
        for letter in word.chars() {
            if room == 0 {
                lines.push(String::new());
                room = width;
            }
            push(&mut lines, letter.encode_utf8(&mut [0; 4]));
            room -= 1;
        }
    }
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

/// A heading, and text beside it: lines of at most `width` characters, those after the first below
/// the text.
pub fn beside(heading: &str, text: &str, width: usize) -> String {
    let indent = heading.chars().count();
    let lines = broken(text, width.saturating_sub(indent));
    let blank = " ".repeat(indent);
    let heads = std::iter::once(heading).chain(std::iter::repeat(blank.as_str()));
    heads.zip(lines).map(|(head, line)| format!("{head}{line}").trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        assert_eq!(broken("one two three", 8), ["one two", "three"]);
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("0-63,128-191 in", 5), ["0-63,", "128-1", "91 in"]);
        assert_eq!(broken("", 5), [""]);
        assert_eq!(beside("Try  ", "one two three", 12), "Try  one two\n     three\n");
    }
}
