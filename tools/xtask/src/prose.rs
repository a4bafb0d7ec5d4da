//! Reading ease of documentation: lengths of sentences, their first words, and the width of lines.

use std::ops::AddAssign;

/// Sentences with more words than this are read twice.
pub const LONG_SENTENCE: usize = 35;
/// Columns that a line of text may have.
pub const WIDTH: usize = 100;

/// First words of sentences that hide their subject.
const FORBIDDEN_OPENINGS: [&str; 8] =
    ["What ", "Of ", "So is ", "Nothing of ", "That of ", "Those of ", "Likewise", "Such is "];

/// The lengths of a text's sentences.
#[derive(Debug, Default)]
pub struct Lengths {
    /// Sentences of three words and more.
    pub sentences: usize,
    /// The words of these.
    pub words: usize,
    /// Sentences that are too long.
    pub long: Vec<String>,
}

impl Lengths {
    /// Words per sentence; 0 of no sentences.
    pub fn mean(&self) -> f64 {
        if self.sentences == 0 { 0.0 } else { self.words as f64 / self.sentences as f64 }
    }

    /// The share of sentences that are too long, from 0 to 1.
    pub fn long_share(&self) -> f64 {
        if self.sentences == 0 { 0.0 } else { self.long.len() as f64 / self.sentences as f64 }
    }
}

impl AddAssign for Lengths {
    fn add_assign(&mut self, other: Self) {
        self.sentences += other.sentences;
        self.words += other.words;
        self.long.extend(other.long);
    }
}

/// Measures the sentences of Markdown, without code, tables and headings.
pub fn lengths(markdown: &str) -> Lengths {
    let mut lengths = Lengths::default();
    for sentence in sentences(markdown) {
        let words = count_words(&sentence);
        if words < 3 {
            continue;
        }
        lengths.sentences += 1;
        lengths.words += words;
        if words > LONG_SENTENCE {
            lengths.long.push(sentence);
        }
    }
    lengths
}

/// Sentences that begin with words that hide their subject.
pub fn forbidden_openings(markdown: &str) -> Vec<String> {
    let hides = |sentence: &String| FORBIDDEN_OPENINGS.iter().any(|opening| sentence.starts_with(opening));
    sentences(markdown).into_iter().filter(|sentence| hides(sentence) && !sentence.ends_with('?')).collect()
}

/// Lines of text that are too wide, with their numbers. Tables, code, images and long addresses may
/// be wide.
pub fn wide_lines(markdown: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let lines = markdown.lines().enumerate().filter(|(_, line)| {
        is_code ^= line.trim_start().starts_with("```");
        let is_text = !is_code && !line.trim_start().starts_with(['|', '<']) && line.contains(' ');
        is_text && line.chars().count() > WIDTH && !line.contains("](http")
    });
    lines.map(|(number, line)| (number + 1, line)).collect()
}

/// Comments of source code that are too wide, with the numbers of their lines. Tables, code, and
/// words without spaces may be wide.
pub fn wide_comments(code: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let lines = code.lines().enumerate().filter(|(_, line)| {
        let comment = line.trim_start().strip_prefix("//").unwrap_or_default();
        let text = comment.trim_start_matches(['/', '!', ' ']);
        is_code ^= text.starts_with("```");
        !is_code && text.contains(' ') && !text.starts_with('|') && line.chars().count() > WIDTH
    });
    lines.map(|(number, line)| (number + 1, line)).collect()
}

fn count_words(sentence: &str) -> usize {
    let is_word = |part: &&str| part.chars().any(char::is_alphanumeric);
    sentence.split(|letter: char| letter.is_whitespace() || letter == '/').filter(is_word).count()
}

fn sentences(markdown: &str) -> Vec<String> {
    paragraphs(markdown).iter().flat_map(|paragraph| split_sentences(&without_markup(paragraph))).collect()
}

/// Paragraphs and items of lists, each on one line.
fn paragraphs(markdown: &str) -> Vec<String> {
    let (mut paragraphs, mut present, mut is_code) = (Vec::new(), String::new(), false);
    for line in markdown.lines() {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```");
        is_code ^= is_fence;
        let indent = line.len() - trimmed.len();
        let is_left_out = is_code || is_fence || trimmed.starts_with(['|', '#', '<']) || indent >= 8;
        let item = trimmed
            .strip_prefix("- ")
            .or_else(|| trimmed.strip_prefix("* "))
            .or_else(|| without_number(trimmed));
        if is_left_out || trimmed.is_empty() || item.is_some() {
            paragraphs.extend(Some(std::mem::take(&mut present)).filter(|text| !text.is_empty()));
        }
        if !is_left_out {
            present += item.unwrap_or(trimmed);
            present.push(' ');
        }
    }
    paragraphs.extend(Some(present));
    paragraphs
}

/// The text of an item of a numbered list.
fn without_number(line: &str) -> Option<&str> {
    let (number, text) = line.split_once(". ")?;
    (number.len() < 3 && number.chars().all(|digit| digit.is_ascii_digit())).then_some(text)
}

/// Text with code as one word, links as their texts, and without emphasis.
fn without_markup(paragraph: &str) -> String {
    let mut text = String::new();
    for (number, part) in paragraph.split('`').enumerate() {
        text += if number % 2 == 0 { part } else { "code" };
    }
    while let Some((before, rest)) = text.split_once("](") {
        let after = rest.split_once(')').map_or("", |(_, after)| after);
        text = format!("{before}{after}");
    }
    text.replace(['[', ']', '*', '!'], "")
}

fn split_sentences(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (mut sentences, mut present) = (Vec::new(), Vec::new());
    for (number, word) in words.iter().enumerate() {
        present.push(*word);
        let ends = word.trim_end_matches([')', '"', '\'']).ends_with(['.', '?', ':']);
        let begins = |next: &&str| {
            next.starts_with(|it: char| it.is_uppercase() || "\"'(".contains(it)) || *next == "code"
        };
        if ends && words.get(number + 1).is_none_or(begins) {
            sentences.push(present.join(" "));
            present.clear();
        }
    }
    if !present.is_empty() {
        sentences.push(present.join(" "));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_paragraphs_and_lists_are_counted() {
        let text = "# A heading\n\nThree words here. And four words\nmore here.\n\n- an item with five words\n\n| a | table |\n\n```sh\nno text at all\n```\n";
        let lengths = lengths(text);
        assert_eq!((lengths.sentences, lengths.words), (3, 13));
        assert!(lengths.long.is_empty());
    }

    #[test]
    fn code_is_one_word_and_a_link_its_text() {
        assert_eq!(sentences("Run `a b c` as [the page](x/y.md#z) says."), ["Run code as the page says."]);
    }

    #[test]
    fn long_sentences_and_hidden_subjects_are_found() {
        let long = "word ".repeat(36) + ".";
        assert_eq!(lengths(&long).long.len(), 1);
        assert_eq!(forbidden_openings("What it costs is little. Of these one counts. What is it?").len(), 2);
    }

    #[test]
    fn wide_comments_are_those_with_words() {
        let (wide, word) = ("word ".repeat(20), "x".repeat(200));
        let code = format!("//! {wide}\n    // {wide}\n// {word}\n/// | {wide} |\nlet wide = 1; // {wide}\n");
        assert_eq!(wide_comments(&code).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn wide_lines_are_those_of_text() {
        let wide = "word ".repeat(21);
        let text = format!("{wide}\n| {wide} |\n```\n{wide}\n```\n");
        assert_eq!(wide_lines(&text).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
    }
}
