//! Tests of the language: what is read, what is said of mistakes, and that no text ends in a panic.

use super::Program;
use crate::backend::Backend;
use crate::collective::Collective;
use crate::pattern::{CollectiveCall, Message, Pattern, Step};
use proptest::prelude::*;

fn pattern(text: &str, bytes: u64, ranks: u32) -> Result<Pattern, String> {
    let program = Program::parse(text).map_err(|mistake| mistake.to_string())?;
    program.pattern(bytes, ranks, &[]).map_err(|mistake| mistake.to_string())
}

const STRIPE: &str = "\
let g = 3   # ranks of a node
step split using put
  for i in 1..g
    0 -> i : n/g from i*n/g to 0
  end
step translate
  0 -> g : n/g to 0
  for i in 1..g
    i -> g+i : n/g to 0
  end
step assemble using get
  for i in 1..g
    g + i -> g : n/g to i*n/g
  end
";

#[test]
fn striping_is_written_in_three_steps() {
    let pattern = pattern(STRIPE, 3000, 6).unwrap();
    assert_eq!(pattern.steps.iter().map(|step| step.messages.len()).collect::<Vec<_>>(), [2, 3, 2]);
    assert_eq!(pattern.backends(), "put+isend+get");
    let expected =
        Message { source: 2, destination: 5, bytes: 1000, source_offset: 0, destination_offset: 0, times: 1 };
    assert_eq!(pattern.steps[1].messages[2], expected);
    assert_eq!(pattern.steps[0].messages[1].source_offset, 2000);
    assert_eq!(pattern.arena(3), 3000);
    let wider = Program::parse(STRIPE).unwrap().pattern(3000, 6, &[("g".to_owned(), 2)]).unwrap();
    assert_eq!(wider.steps[1].messages.len(), 2);
}

#[test]
fn messages_without_a_place_get_one_of_their_own() {
    let text = "for i in 1..p\n i -> 0 : n\nend\n0 -> 1 : 8 from 4";
    let pattern = pattern(text, 100, 4).unwrap();
    let places: Vec<u64> = pattern.steps[0].messages.iter().map(|it| it.destination_offset).collect();
    // Rank 0 sends up to byte 12, rank 1 up to byte 100.
    assert_eq!(places, [64, 192, 320, 128]);
}

#[test]
fn collectives_have_members_and_roots() {
    let text =
        "step\nMPI_Allreduce on 0..4, 9 : n\nMPI_Bcast on 4..9 by 2 : 2*n root 1\nstep all\nMPI_Barrier : 0";
    let pattern = pattern(text, 8, 10).unwrap();
    let [first, second] = &pattern.steps[0].collectives[..] else { panic!("{pattern}") };
    assert_eq!((first.collective, &first.members[..]), (Collective::Allreduce, &[0, 1, 2, 3, 9][..]));
    assert_eq!((second.members.as_slice(), second.bytes, second.root), (&[4, 6, 8][..], 16, 1));
    assert_eq!(pattern.steps[1].collectives[0].members.len(), 10);
}

#[test]
fn mistakes_name_the_line_and_what_is_wrong() {
    for (text, expected) in [
        ("0 -> 1", "line 1: the line ends where ':' should be"),
        (
            "\n\n0 -> 4 : n",
            "line 3: there is no rank 4, since there are 4 ranks: start 5 or more with mpirun -n",
        ),
        ("0 -> 0-1 : n", "line 1: there is no rank -1"),
        ("step a using mpi", "line 1: there is no backend 'mpi'; there are isend, persistent, put, get"),
        ("for i in 0..p\n0 -> 1 : n", "line 1: this loop has no 'end'"),
        ("end", "line 1: there is no 'for' that this 'end' could belong to"),
        ("let n = 3", "line 1: 'n' has its value from the run; take another name"),
        ("let to = 3", "line 1: 'to' is a keyword and cannot be a variable"),
        ("0 -> 1 : m", "line 1: there is no variable 'm' here; there are n, p"),
        (
            "0 -> 1 : n to 0\n2 -> 1 : n to 4",
            "line 2: at rank 1, bytes from 4 on are written by a message and written",
        ),
        ("0 -> 1 : n / (p - 4)", "line 1: a division by zero"),
        ("0 -> 1 : 0 - n", "line 1: the size is -8 bytes, less than 0"),
        ("MPI_Ibcast : n", "line 1: there is no blocking collective 'MPI_Ibcast'"),
        ("step\nMPI_Bcast : n root 4", "line 1: the root 4 is not among the 4 members"),
        ("MPI_Bcast on 0..2 : n\nMPI_Bcast on 1..3 : n", "line 1: rank 1 is a member twice"),
        ("for i in 0..9000000000\n end", "line 1: there are more than 4000000 messages and turns of loops"),
        ("# nothing", "line 1: there is no message and no collective operation"),
        ("0 -> 1 : n $", "line 1: '$' has no meaning here"),
        ("0 -> 1 : 4G", "line 1: a message of 4294967296 bytes is longer than 2147483647 bytes"),
        ("0 -> 1 : n times 0", "line 1: the number of times is 0; it has to be 1 or more"),
    ] {
        let mistake = pattern(text, 8, 4).unwrap_err();
        assert!(mistake.starts_with(expected), "{text}\n{mistake}\n{expected}");
    }
    let program = Program::parse("let g = 2\n0 -> 1 : n").unwrap();
    let mistake = program.pattern(8, 4, &[("h".to_owned(), 1)]).unwrap_err().to_string();
    assert!(mistake.contains("no 'let h = …'"), "{mistake}");
}

/// Patterns that are printed as they are: with all offsets given.
fn printable() -> impl Strategy<Value = Pattern> {
    let message = (0..8_u32, 0..8_u32, 0..4096_u64, 1..4_u32);
    let backend = prop::sample::select(Backend::ALL.to_vec());
    let step = (backend, prop::collection::vec(message, 1..8)).prop_map(|(backend, messages)| {
        let messages =
            messages.into_iter().enumerate().map(|(at, (source, destination, bytes, times))| Message {
                source,
                destination,
                bytes,
                source_offset: at as u64 * 4096,
                destination_offset: (100 + at as u64) * 4096,
                times,
            });
        Step { name: "any".to_owned(), backend, messages: messages.collect(), collectives: Vec::new() }
    });
    let collective = (prop::sample::select(Collective::ALL.to_vec()), 0..512_u64, 0..3_u32);
    let collective = collective.prop_map(|(collective, bytes, root)| Step {
        name: "all-of-them".to_owned(),
        collectives: vec![CollectiveCall { collective, members: vec![0, 5, 6], bytes, root }],
        ..Step::default()
    });
    (prop::collection::vec(prop_oneof![step, collective], 1..5), 1..5_u32)
        .prop_map(|(steps, parts)| Pattern { steps, parts })
}

/// Lines of the language's own words, most of them wrong.
fn garbled() -> impl Strategy<Value = String> {
    let words = [
        "0",
        "1",
        "n",
        "p",
        "i",
        "->",
        ":",
        "..",
        ",",
        "(",
        ")",
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "for",
        "in",
        "end",
        "step",
        "using",
        "put",
        "let",
        "from",
        "to",
        "times",
        "on",
        "by",
        "root",
        "parts",
        "MPI_Bcast",
        "9223372036854775807",
        "8k",
        "\n",
        "\n",
        "\n",
        "#",
        "é",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn a_printed_pattern_is_read_as_the_same(pattern in printable()) {
        let text = pattern.to_string();
        let read = Program::parse(&text).unwrap().pattern(1, 8, &[]);
        prop_assert_eq!(read.as_ref(), Ok(&pattern), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        if let Ok(program) = Program::parse(&text) {
            let _ = program.pattern(1000, 4, &[]);
        }
    }

    #[test]
    fn any_words_are_read_or_refused(text in garbled()) {
        match Program::parse(&text).and_then(|program| program.pattern(1000, 4, &[])) {
            Ok(pattern) => prop_assert_eq!(pattern.check(4), Ok(())),
            Err(mistake) => {
                prop_assert!(mistake.line >= 1 && mistake.line <= text.lines().count().max(1));
                prop_assert!(!mistake.what.contains('\n'));
            }
        }
    }
}
