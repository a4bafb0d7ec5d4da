//! From a pattern file to a pattern: with the size and the number of ranks known.

use super::{CollectiveLine, Kind, Members, MessageLine, Mistake, Program, Statement};
use crate::expression::{Expression, Variables};
use crate::pattern::{CollectiveCall, Message, Pattern, Step};
use std::collections::BTreeMap;

/// Messages and turns of loops, at the most: a bound on time and memory.
const MOST_STATEMENTS: usize = 4_000_000;
/// Members of one collective operation.
const MOST_MEMBERS: i64 = 1 << 23;
/// Places that are chosen for messages begin at multiples of that, or of a page where they are
/// large.
const ALIGNMENT: u64 = 64;
const PAGE: u64 = 4096;

impl Program {
    /// The pattern for messages of `bytes` on `ranks` ranks; `settings` take the place of what
    /// `let` says.
    pub fn pattern(&self, bytes: u64, ranks: u32, settings: &[(String, i64)]) -> Result<Pattern, Mistake> {
        let size = i64::try_from(bytes).map_err(|_| Mistake {
            line: 1,
            what: format!("{bytes} bytes are more than a number can hold"),
        })?;
        let variables = Variables::from([("n".to_owned(), size), ("p".to_owned(), ranks.into())]);
        let mut run = Run {
            variables,
            settings: settings.iter().map(|(name, value)| (name.clone(), (*value, false))).collect(),
            ranks,
            parts: 1,
            steps: Vec::new(),
            left: MOST_STATEMENTS,
        };
        run.statements(&self.statements, true)?;
        if let Some((name, _)) = run.settings.iter().find(|(_, (_, is_used))| !is_used) {
            return Err(Mistake {
                line: 1,
                what: format!("there is no 'let {name} = …' that --set could change"),
            });
        }
        run.finish()
    }
}

/// A message whose place at the destination may still have to be chosen.
struct Placed {
    line: usize,
    message: Message,
    has_place: bool,
}

#[derive(Default)]
struct Collected {
    line: usize,
    step: Step,
    messages: Vec<Placed>,
}

struct Run {
    variables: Variables,
    /// Values from outside, and whether a `let` had them.
    settings: BTreeMap<String, (i64, bool)>,
    ranks: u32,
    parts: u32,
    steps: Vec<Collected>,
    left: usize,
}

impl Run {
    fn statements(&mut self, statements: &[Statement], is_outermost: bool) -> Result<(), Mistake> {
        for Statement { line, kind } in statements {
            let mistake = |what| Mistake { line: *line, what };
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                mistake(format!("there are more than {MOST_STATEMENTS} messages and turns of loops"))
            })?;
            match kind {
                Kind::For { variable, from, to, body } => self.repeat(*line, variable, [from, to], body)?,
                Kind::Parts(parts) => self.parts = self.number(parts, 1, "parts").map_err(mistake)?,
                Kind::Let { name, value } => {
                    let value = value.value(&self.variables).map_err(mistake)?;
                    let set = self.settings.get_mut(name).filter(|_| is_outermost);
                    let value = set.map_or(value, |(set, is_used)| {
                        *is_used = true;
                        *set
                    });
                    self.variables.insert(name.clone(), value);
                }
                Kind::Step { name, backend } => {
                    let name = name.clone().unwrap_or_else(|| format!("step{}", self.steps.len() + 1));
                    let step = Step { name, backend: backend.unwrap_or_default(), ..Step::default() };
                    self.steps.push(Collected { line: *line, step, messages: Vec::new() });
                }
                Kind::Message(it) => {
                    let message = self.message(*line, it).map_err(mistake)?;
                    self.step(*line).messages.push(message);
                }
                Kind::Collective(it) => {
                    let call = self.collective(it).map_err(mistake)?;
                    self.step(*line).step.collectives.push(call);
                }
            }
        }
        Ok(())
    }

    /// The step that statements belong to: a first one where the file names none.
    fn step(&mut self, line: usize) -> &mut Collected {
        if self.steps.is_empty() {
            let step = Step { name: "step1".to_owned(), ..Step::default() };
            self.steps.push(Collected { line, step, messages: Vec::new() });
        }
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn repeat(
        &mut self,
        line: usize,
        variable: &str,
        [from, to]: [&Expression; 2],
        body: &[Statement],
    ) -> Result<(), Mistake> {
        let mistake = |what| Mistake { line, what };
        let from = from.value(&self.variables).map_err(mistake)?;
        let to = to.value(&self.variables).map_err(mistake)?;
        let hidden = self.variables.get(variable).copied();
        for turn in from..to {
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                mistake(format!("there are more than {MOST_STATEMENTS} messages and turns of loops"))
            })?;
            self.variables.insert(variable.to_owned(), turn);
            self.statements(body, false)?;
        }
        match hidden {
            Some(value) => self.variables.insert(variable.to_owned(), value),
            None => self.variables.remove(variable),
        };
        Ok(())
    }

    fn number(&self, expression: &Expression, least: i64, what: &str) -> Result<u32, String> {
        let value = expression.value(&self.variables)?;
        let number = u32::try_from(value).ok().filter(|_| value >= least);
        number.ok_or_else(|| format!("the number of {what} is {value}; it has to be {least} or more"))
    }

    fn rank(&self, expression: &Expression) -> Result<u32, String> {
        let value = expression.value(&self.variables)?;
        let rank = u32::try_from(value).ok().filter(|&rank| rank < self.ranks);
        rank.ok_or_else(|| match value {
            ..0 => format!("there is no rank {value}"),
            _ => format!(
                "there is no rank {value}, since there are {} ranks: start {} or more with mpirun -n",
                self.ranks,
                value.saturating_add(1)
            ),
        })
    }

    fn bytes(&self, expression: &Expression, what: &str) -> Result<u64, String> {
        let value = expression.value(&self.variables)?;
        u64::try_from(value).map_err(|_| format!("the {what} is {value} bytes, less than 0"))
    }

    fn message(&self, line: usize, it: &MessageLine) -> Result<Placed, String> {
        let offset = |offset: &Option<Expression>| match offset {
            Some(offset) => self.bytes(offset, "offset"),
            None => Ok(0),
        };
        let message = Message {
            source: self.rank(&it.source)?,
            destination: self.rank(&it.destination)?,
            bytes: self.bytes(&it.bytes, "size")?,
            source_offset: offset(&it.from)?,
            destination_offset: offset(&it.to)?,
            times: it.times.as_ref().map_or(Ok(1), |times| self.number(times, 1, "times"))?,
        };
        Ok(Placed { line, message, has_place: it.to.is_some() })
    }

    fn collective(&self, it: &CollectiveLine) -> Result<CollectiveCall, String> {
        let mut members = Vec::new();
        for part in &it.members {
            match part {
                Members::One(rank) => members.push(self.rank(rank)?),
                Members::Range { from, to, by } => {
                    let from = from.value(&self.variables)?;
                    let to = to.value(&self.variables)?;
                    let by = by.as_ref().map_or(Ok(1), |by| self.number(by, 1, "steps of a range"))?;
                    if to.saturating_sub(from) > MOST_MEMBERS {
                        return Err(format!("a range of more than {MOST_MEMBERS} ranks"));
                    }
                    for rank in (from..to).step_by(by as usize) {
                        members.push(self.rank(&Expression::Number(rank))?);
                    }
                }
            }
        }
        if it.members.is_empty() {
            members = (0..self.ranks).collect();
        }
        let root = it.root.as_ref().map_or(Ok(0), |root| self.number(root, 0, "the root"))?;
        Ok(CollectiveCall { collective: it.collective, members, bytes: self.bytes(&it.bytes, "size")?, root })
    }

    /// Chooses places where there are none, behind all that are given, and checks the whole.
    fn finish(mut self) -> Result<Pattern, Mistake> {
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        for it in self.steps.iter().flat_map(|step| &step.messages) {
            let mut reach = |rank: u32, end: u64| {
                let most = ends.entry(rank).or_insert(0);
                *most = end.max(*most);
            };
            reach(it.message.source, it.message.source_span().1);
            if it.has_place {
                reach(it.message.destination, it.message.destination_span().1);
            }
        }
        for it in self.steps.iter_mut().flat_map(|step| &mut step.messages).filter(|it| !it.has_place) {
            let end = ends.entry(it.message.destination).or_insert(0);
            let place = if it.message.bytes < PAGE { ALIGNMENT } else { PAGE };
            let begin = end.checked_next_multiple_of(place).unwrap_or(u64::MAX);
            it.message.destination_offset = begin;
            *end = begin.saturating_add(it.message.bytes);
        }
        let lines: Vec<(usize, Vec<usize>)> = self
            .steps
            .iter()
            .map(|step| (step.line, step.messages.iter().map(|it| it.line).collect()))
            .collect();
        let step = |it: Collected| Step {
            messages: it.messages.into_iter().map(|placed| placed.message).collect(),
            ..it.step
        };
        let pattern = Pattern { steps: self.steps.into_iter().map(step).collect(), parts: self.parts };
        pattern.check(self.ranks).map_err(|fault| {
            let of_step = lines.get(fault.step);
            let of_message = of_step.and_then(|(_, lines)| lines.get(fault.message?)).copied();
            Mistake { line: of_message.or(of_step.map(|(line, _)| *line)).unwrap_or(1), what: fault.what }
        })?;
        Ok(pattern)
    }
}
