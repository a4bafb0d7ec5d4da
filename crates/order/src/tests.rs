use super::*;
use proptest::prelude::*;

fn grammar(sequence: impl IntoIterator<Item = u32>) -> Grammar {
    let mut grammar = Grammar::with_capacity(1 << 20);
    for terminal in sequence {
        assert!(grammar.push(terminal));
    }
    grammar
}

fn text(rules: &[Vec<Repeated>]) -> String {
    let body = |body: &Vec<Repeated>| {
        body.iter()
            .map(|&(symbol, count)| {
                let name = match symbol.as_rule() {
                    Some(rule) => format!("R{rule}"),
                    None => char::from_u32(symbol.0).map_or_else(|| symbol.0.to_string(), String::from),
                };
                if count == 1 { name } else { format!("{name}^{count}") }
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    rules.iter().map(body).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_loop_is_one_rule_with_a_count() {
    let shown = |sequence: &str| text(grammar(sequence.chars().map(u32::from)).rules().bodies());
    assert_eq!(shown("aaaa"), "a^4");
    assert_eq!(shown(&"abc".repeat(100)), "R1^100 | a b c");
    let nested = ("abbbc".repeat(10) + "d").repeat(20);
    assert_eq!(shown(&nested), "R1^20 | R2^10 d | a b^3 c");
    assert_eq!(shown(&format!("xy{nested}zz")), "x y R1^20 z^2 | R2^10 d | a b^3 c");
}

#[test]
fn loops_take_the_same_room_however_often_they_run() {
    let size = |times: u32| {
        let sequence = (0..times).flat_map(|step| {
            let mut calls = vec![1, 1, 1, 1, 2, 2, 3, 4, 5];
            calls.extend(std::iter::repeat_n([6, 7], 12).flatten());
            if step % 10 == 9 {
                calls.extend([8, 9]);
            }
            calls
        });
        grammar(sequence).size()
    };
    assert_eq!((size(100), size(10_000)), (16, 16));
}

#[test]
fn a_loop_is_repeated_at_once() {
    let known = "abc".repeat(4);
    let mut grammar = grammar(format!("xb{known}").chars().map(u32::from));
    assert!(grammar.repeat_last(3, 1 << 40));
    assert!("ab".chars().all(|terminal| grammar.push(u32::from(terminal))));
    assert_eq!(grammar.len(), 2 + 3 * (4 + (1 << 40)) + 2);
    assert!(!grammar.repeat_last(2, 5), "'ab' does not come again");
    assert!(!grammar.repeat_last(3, u64::MAX), "no sequence is as long");
    assert_eq!(grammar.rules().len(), grammar.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn repeating_is_appending(
        before in prop::collection::vec(0u32..4, 0..20), period in prop::collection::vec(0u32..4, 1..12),
        known in 1usize..6, times in 0u64..8, after in prop::collection::vec(0u32..4, 0..20),
    ) {
        let mut sequence = before;
        sequence.extend(period.repeat(known));
        let mut repeated = grammar(sequence.iter().copied());
        if repeated.repeat_last(period.len() as u64, times) {
            sequence.extend(period.repeat(times as usize));
        }
        for terminal in after {
            prop_assert!(repeated.push(terminal));
            sequence.push(terminal);
        }
        repeated.check();
        prop_assert!(repeated.rules().iter().eq(sequence.iter().copied()));
    }

    #[test]
    fn a_grammar_gives_its_sequence_back(
        alphabet in 1u32..9, raw in prop::collection::vec((any::<u32>(), 1usize..5), 0..300), again in 1usize..6,
    ) {
        let once: Vec<u32> =
            raw.iter().flat_map(|&(number, times)| std::iter::repeat_n(number % alphabet, times)).collect();
        let sequence = once.repeat(again);
        let grammar = grammar(sequence.iter().copied());
        grammar.check();
        let rules = grammar.rules();
        prop_assert_eq!(rules.len(), sequence.len() as u64);
        prop_assert!(rules.iter().eq(sequence.iter().copied()));
        let mut terminals = std::collections::BTreeMap::new();
        sequence.iter().for_each(|terminal| *terminals.entry(*terminal).or_insert(0) += 1);
        prop_assert_eq!(rules.terminals(), terminals);
        prop_assert_eq!(Rules::decode(&rules.encode()), Ok(rules.clone()));
        prop_assert_eq!(Rules::from_text(&rules.to_text()), Ok(rules.clone()));
        let mut places = Vec::new();
        sequence.iter().for_each(|terminal| if !places.contains(terminal) { places.push(*terminal) });
        prop_assert_eq!(rules.by_first_place(), places);
        let followed = rules.followed_by(&sequence);
        prop_assert!(followed.iter().eq(sequence.iter().chain(&sequence).copied()));
    }
}

impl Grammar {
    /// Asserts the properties that compress.
    fn check(&self) {
        let mut rules = self.bodies();
        let begun = self.begun_repetition().len();
        let length = rules[0].len();
        rules[0].truncate(length - begun);
        let mut uses = vec![0u32; rules.len()];
        let mut pairs = std::collections::HashMap::new();
        for body in &rules {
            for &(symbol, count) in body {
                assert!(count > 0);
                if let Some(rule) = symbol.as_rule() {
                    uses[rule as usize] += 1;
                    assert!(!rules[rule as usize].is_empty());
                }
            }
            for pair in body.windows(2) {
                assert_ne!(pair[0].0, pair[1].0, "neighbours differ: {}", text(&rules));
                *pairs.entry((pair[0], pair[1])).or_insert(0) += 1;
            }
        }
        for (number, rule) in self.rules.iter().enumerate().skip(1).filter(|(_, rule)| rule.head != NONE) {
            assert_eq!(rule.uses, uses[number]);
            assert!(rule.uses > 0, "{number}: {}", text(&rules));
        }
        let twice = pairs.values().filter(|times| **times > 1).count();
        assert!(twice <= 2, "{twice} pairs occur twice: {}", text(&rules));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn other_bytes_are_refused_or_read(bytes in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..40)) {
        if let Ok(rules) = Rules::decode(&bytes) {
            prop_assert_eq!(Rules::decode(&rules.encode()), Ok(rules.clone()));
            prop_assert!(rules.iter().take(1000).count() as u64 == rules.len().min(1000));
        }
    }
}
