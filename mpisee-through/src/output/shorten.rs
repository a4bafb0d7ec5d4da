//! Shortens text to the width of its column, so that what tells it apart stays.

/// The smallest width to which text is cut.
pub const CUT_AT_LEAST: usize = 8;

/// The smallest width to which a name is cut for what stands behind it: `W…*…0`.
const NAME_AT_LEAST: usize = 5;

/// Text without its middle, if it is longer than `room`; what indents it stays, and of a family of
/// communicators the `*` and the size behind it, `W_s1.…*…_s3.0 (2 × 2)`.
pub fn shortened(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    if let Some((place, _)) = text.split_once(" < ") {
        return shortened_place(place, room);
    }
    let (name, size) = divided(text);
    match room.checked_sub(width(size)) {
        Some(room) if room >= NAME_AT_LEAST => without_middle(name, room) + size,
        _ => without_middle(text, room),
    }
}

/// The place of a call without the functions into which it is inlined.
fn shortened_place(place: &str, room: usize) -> String {
    const MORE: &str = " < …";
    match room.checked_sub(width(MORE)) {
        Some(room) if width(place) <= room => place.to_owned() + MORE,
        _ => shortened(place, room),
    }
}

/// A list of communicators: of those that have no room, the number.
pub fn shortened_list(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut names: Vec<&str> = text.split(", ").collect();
    let mut more = 0;
    if let Some(number) = names.last().and_then(|last| last.strip_suffix(" more")?.parse::<usize>().ok()) {
        more = number;
        names.pop();
    }
    let [first, others @ ..] = &names[..] else { return shortened(text, room) };
    let more = more + others.len();
    if more == 0 {
        return shortened(first, room);
    }
    let (name, size) = divided(first);
    for (more, least) in [(format!(", {more} more"), CUT_AT_LEAST), (format!(" +{more}"), NAME_AT_LEAST)] {
        if let Some(room) = room.checked_sub(width(size) + width(&more)).filter(|room| *room >= least) {
            return without_middle(name, room) + size + &more;
        }
    }
    let more = format!(" +{more}");
    without_middle(name, room.saturating_sub(width(&more)).max(NAME_AT_LEAST)) + &more
}

/// The name, and the size of a family with the blank before it.
fn divided(text: &str) -> (&str, &str) {
    let at = text.rfind(" (").filter(|&at| text.ends_with(')') && text[at..].contains(" × "));
    text.split_at(at.unwrap_or(text.len()))
}

fn without_middle(text: &str, room: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= room {
        return text.to_owned();
    }
    let indent = letters.iter().take_while(|c| c.is_whitespace() || "│├└─".contains(**c)).count();
    let indent = indent.min(room.saturating_sub(CUT_AT_LEAST));
    let ends = |left: usize| (indent + left / 2, left - left / 2);
    let joined = |(head, tail): (usize, usize), middle: &[char]| -> String {
        letters[..head].iter().chain(middle).chain(&letters[letters.len() - tail..]).collect()
    };
    let plain = joined(ends(room - indent - 1), &['…']);
    match letters.contains(&'*') && !plain.contains('*') {
        true => joined(ends(room - indent - 3), &['…', '*', '…']),
        false => plain,
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_goes_and_what_indents_stays() {
        assert_eq!(shortened("│  ├─ W_s1.0_s2.0_s3.0", 16), "│  ├─ W_s1…_s3.0");
        assert_eq!(shortened("W_s1.0", 6), "W_s1.0");
        let place = "get at heat.c:42 < main at heat.c:80";
        assert_eq!(shortened(place, 36), place);
        assert_eq!(shortened(place, 24), "get at heat.c:42 < …");
        assert_eq!(shortened(place, 17), "get at heat.c:42");
        assert_eq!(shortened(place, 12), "get a…t.c:42");
    }

    #[test]
    fn a_family_keeps_its_star_and_its_size() {
        let family = "W_s1.0_s1.*_s1.0_s3.0";
        assert_eq!(shortened(family, 16), "W_s1.0…*….0_s3.0");
        assert_eq!(shortened(&format!("{family} (2 × 2)"), 20), "W_s1…*…_s3.0 (2 × 2)");
        assert_eq!(shortened("W_s1.*_d1_s2.0_s3.0", 13), "W_s1.*…0_s3.0");
    }

    #[test]
    fn a_list_says_how_many_have_no_room() {
        let list = "W_s1.0_s1.*_s1.0_s3.0 (2 × 2), W_s1.0_s1.*_s1.0_s5.0 (2 × 2)";
        assert_eq!(shortened_list(list, 100), list);
        assert_eq!(shortened_list(list, 38), "W_s1.0_s1.*_s1.0_s3.0 (2 × 2), 1 more");
        assert_eq!(shortened_list(&format!("{list}, 3 more"), 26), "W_s…*…s3.0 (2 × 2), 4 more");
        assert_eq!(shortened_list(list, 16), "W…*…0 (2 × 2) +1");
        assert_eq!(shortened_list(list, 15), "W_s1…*…_s3.0 +1");
        assert_eq!(shortened_list("W_s1.*_s3.0 (2 × 2)", 15), "W_…*….0 (2 × 2)");
        assert_eq!(shortened_list("W_s1.*_s3.0 (2 × 2)", 16), "W_…*…3.0 (2 × 2)");
    }
}
