//! The pattern file in docs/reference/patterns.md is one.

use mpisee_bench::language::Program;
use std::path::Path;

#[test]
fn the_documented_pattern_file_is_carried_out_on_four_ranks() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/patterns.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = text.find("# relay.pattern").expect("there is an example");
    let example = text[begin..].split("```").next().unwrap();
    let program = Program::parse(example).unwrap();
    let pattern = program.pattern(64 << 10, 4, &[]).unwrap();
    let messages: Vec<usize> = pattern.steps.iter().map(|step| step.messages.len()).collect();
    assert_eq!((messages, pattern.backends().as_str()), (vec![2, 2, 0], "put+isend"));
    assert_eq!(pattern.moved(), 2 * (64 << 10) + 4 * 8);
    assert_eq!(program.pattern(64 << 10, 6, &[("g".to_owned(), 4)]).unwrap().ranks(), 6);
}
