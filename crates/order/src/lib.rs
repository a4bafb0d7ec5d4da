//! A sequence of numbers as a grammar in which loops are rules with counts.
//!
//! The grammar is that of Sequitur (Nevill-Manning and Witten 1997) with a count per symbol: no
//! pair of neighbours occurs twice, each rule is used more than once or repeated, and neighbours
//! differ. So `abcabcabc` is `A³` with `A → abc`, and a loop takes the same room however often it
//! runs.

pub mod rules;

pub use rules::Rules;
use rustc_hash::FxHashMap;

/// A place in [`Grammar::nodes`].
type NodeId = u32;

/// No node.
const NONE: NodeId = u32::MAX;

/// A symbol: a terminal, or a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);

/// Set in the number of a rule.
const IS_RULE: u32 = 1 << 31;

impl Symbol {
    /// A terminal below 2³¹.
    pub const fn terminal(number: u32) -> Symbol {
        assert!(number & IS_RULE == 0);
        Symbol(number)
    }

    /// The number of the terminal, unless it is a rule.
    pub const fn as_terminal(self) -> Option<u32> {
        if self.0 & IS_RULE == 0 { Some(self.0) } else { None }
    }

    const fn rule(number: u32) -> Symbol {
        Symbol(number | IS_RULE)
    }

    /// The rule's number, unless it is a terminal.
    pub const fn as_rule(self) -> Option<u32> {
        if self.0 & IS_RULE != 0 { Some(self.0 & !IS_RULE) } else { None }
    }
}

/// A symbol and how often it is repeated.
pub type Repeated = (Symbol, u64);

#[derive(Clone, Copy, Debug)]
struct Node {
    symbol: Symbol,
    /// 0 of the head of a rule, and of nodes that are free.
    count: u64,
    previous: NodeId,
    next: NodeId,
    /// Grows when the node is freed.
    stamp: u32,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The node before the first and after the last.
    head: NodeId,
    /// Nodes that have the rule.
    uses: u32,
}

/// A grammar that grows at its end.
#[derive(Debug)]
pub struct Grammar {
    nodes: Vec<Node>,
    free_nodes: Vec<NodeId>,
    /// The first is the sequence itself.
    rules: Vec<Rule>,
    free_rules: Vec<u32>,
    /// The left node of each pair of neighbours.
    pairs: FxHashMap<(Repeated, Repeated), NodeId>,
    /// Left nodes of pairs that are new, with their stamps.
    new_pairs: Vec<(NodeId, u32)>,
    /// Nodes beyond this number end the recording.
    most_nodes: usize,
    length: u64,
    /// Where the sequence is within a further repetition of its last rule, which is not in the
    /// sequence yet: a place in a rule per level.
    ahead: Vec<Place>,
    /// The terminal that follows there; none if the sequence is not within a repetition.
    expected: Option<Symbol>,
}

/// A node, and how many of its repetitions are over.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: NodeId,
    done: u64,
}

impl Grammar {
    /// An empty sequence, which may take up to `most_nodes` nodes.
    pub fn with_capacity(most_nodes: usize) -> Grammar {
        let mut grammar = Grammar {
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            rules: Vec::new(),
            free_rules: Vec::new(),
            pairs: FxHashMap::default(),
            new_pairs: Vec::new(),
            most_nodes,
            length: 0,
            ahead: Vec::new(),
            expected: None,
        };
        grammar.new_rule();
        grammar
    }

    /// The number of terminals pushed.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True before the first push.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Nodes in use, heads of rules included.
    pub fn size(&self) -> usize {
        self.nodes.len() - self.free_nodes.len()
    }

    /// Appends a terminal; `false` if there is no room for it.
    pub fn push(&mut self, terminal: u32) -> bool {
        let symbol = Symbol::terminal(terminal);
        if self.expected == Some(symbol) {
            self.advance();
        } else {
            self.leave_repetition();
            if !self.has_room() {
                return false;
            }
            self.append(symbol, 1);
            self.enter_repetition();
        }
        self.length += 1;
        true
    }

    /// Appends the last `period` terminals again, `times` times, in constant time; `false`, without
    /// a change, if the sequence does not end with a repetition that says so.
    pub fn repeat_last(&mut self, period: u64, times: u64) -> bool {
        let last = self.previous(self.rules[0].head);
        let Node { symbol, count, .. } = self.nodes[last as usize];
        let length = self.expanded(symbol);
        // The sequence ends within, or at the end of, `count` repetitions of the last symbol.
        let is_repetition =
            period > 0 && period.is_multiple_of(length) && count.saturating_mul(length) >= period;
        let longer = times.checked_mul(period).and_then(|more| self.length.checked_add(more));
        let (true, Some(longer)) = (is_repetition, longer) else { return false };
        self.nodes[last as usize].count += times * (period / length);
        self.length = longer;
        true
    }

    /// The number of terminals for which a symbol stands, at least 1.
    fn expanded(&self, symbol: Symbol) -> u64 {
        let Some(rule) = symbol.as_rule() else { return 1 };
        let head = self.rules[rule as usize].head;
        let mut length = 0u64;
        let mut node = self.next(head);
        while node != head {
            let Node { symbol, count, next, .. } = self.nodes[node as usize];
            length = length.saturating_add(self.expanded(symbol).saturating_mul(count));
            node = next;
        }
        length.max(1)
    }

    /// Returns whether there is room for the nodes that a terminal may take: within the limit, and
    /// in memory.
    fn has_room(&mut self) -> bool {
        const MOST_NEW: usize = 8;
        self.size() + MOST_NEW <= self.most_nodes
            && self.nodes.try_reserve(MOST_NEW).is_ok()
            && self.free_nodes.try_reserve(MOST_NEW).is_ok()
            && self.rules.try_reserve(MOST_NEW).is_ok()
            && self.free_rules.try_reserve(MOST_NEW).is_ok()
            && self.pairs.try_reserve(MOST_NEW).is_ok()
            && self.new_pairs.try_reserve(MOST_NEW).is_ok()
    }

    /// The rules as they are now.
    pub fn rules(&self) -> Rules {
        Rules::from_bodies(&self.bodies())
    }

    /// The bodies of the rules by number, the sequence first; numbers in between may be unused.
    fn bodies(&self) -> Vec<Vec<Repeated>> {
        let mut bodies = vec![Vec::new(); self.rules.len()];
        for (number, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.head != NONE) {
            let mut node = self.next(rule.head);
            while node != rule.head {
                bodies[number].push(self.repeated(node));
                node = self.next(node);
            }
        }
        bodies[0].extend(self.begun_repetition());
        bodies
    }

    /// Appends a symbol to the sequence.
    fn append(&mut self, symbol: Symbol, count: u64) {
        let head = self.rules[0].head;
        let last = self.previous(head);
        if last != head && self.nodes[last as usize].symbol == symbol {
            self.nodes[last as usize].count += count;
            return;
        }
        let node = self.new_node(symbol, count);
        self.link(last, node);
        self.link(node, head);
        // The symbol that was last grows no more, so its pair with the symbol before is known.
        if last != head {
            self.note_pair(self.previous(last));
            self.settle();
        }
    }

    /// Has a terminal after a rule begin another repetition of the rule, if the rule begins so.
    fn enter_repetition(&mut self) {
        let head = self.rules[0].head;
        let last = self.previous(head);
        let before = self.previous(last);
        if self.is_head(before) || self.nodes[last as usize].count != 1 {
            return;
        }
        let Some(mut rule) = self.nodes[before as usize].symbol.as_rule() else { return };
        while let Some(inner) =
            self.nodes[self.next(self.rules[rule as usize].head) as usize].symbol.as_rule()
        {
            rule = inner;
        }
        let first = self.nodes[self.next(self.rules[rule as usize].head) as usize].symbol;
        if first != self.nodes[last as usize].symbol {
            return;
        }
        // The rule may be repeated once more, so its count is open again.
        self.forget_pair(self.previous(before));
        self.link(before, head);
        self.free_node(last);
        self.descend(before);
        self.advance();
    }

    /// Goes to the first terminal of a node's next repetition.
    fn descend(&mut self, mut node: NodeId) {
        while let Some(rule) = self.nodes[node as usize].symbol.as_rule() {
            node = self.next(self.rules[rule as usize].head);
            self.ahead.push(Place { node, done: 0 });
        }
        self.expected = Some(self.nodes[node as usize].symbol);
    }

    /// Goes beyond the expected terminal.
    fn advance(&mut self) {
        while let Some(place) = self.ahead.last_mut() {
            place.done += 1;
            let Node { count, next, .. } = self.nodes[place.node as usize];
            if place.done == count {
                *place = Place { node: next, done: 0 };
                if self.nodes[next as usize].count == 0 {
                    self.ahead.pop();
                    continue;
                }
            }
            let node = place.node;
            return self.descend(node);
        }
        let last = self.previous(self.rules[0].head);
        self.nodes[last as usize].count += 1;
        self.descend(last);
    }

    /// The symbols of the repetition that has begun.
    fn begun_repetition(&self) -> Vec<Repeated> {
        let mut symbols = Vec::new();
        for place in &self.ahead {
            let mut before = self.previous(place.node);
            let at = symbols.len();
            while !self.is_head(before) {
                symbols.insert(at, self.repeated(before));
                before = self.previous(before);
            }
            if place.done > 0 {
                symbols.push((self.nodes[place.node as usize].symbol, place.done));
            }
        }
        symbols
    }

    /// Appends what there is of the repetition that has begun.
    fn leave_repetition(&mut self) {
        if self.expected.take().is_none() {
            return;
        }
        let symbols = self.begun_repetition();
        self.ahead.clear();
        // Rules that are still to be appended stay.
        let rules = || symbols.iter().filter_map(|(symbol, _)| symbol.as_rule());
        rules().for_each(|rule| self.rules[rule as usize].uses += 1);
        for &(symbol, count) in &symbols {
            self.append(symbol, count);
        }
        rules().for_each(|rule| self.rules[rule as usize].uses -= 1);
    }

    fn repeated(&self, node: NodeId) -> Repeated {
        (self.nodes[node as usize].symbol, self.nodes[node as usize].count)
    }

    fn is_head(&self, node: NodeId) -> bool {
        self.nodes[node as usize].count == 0
    }

    fn next(&self, node: NodeId) -> NodeId {
        self.nodes[node as usize].next
    }

    fn previous(&self, node: NodeId) -> NodeId {
        self.nodes[node as usize].previous
    }

    fn link(&mut self, left: NodeId, right: NodeId) {
        self.nodes[left as usize].next = right;
        self.nodes[right as usize].previous = left;
    }

    fn new_node(&mut self, symbol: Symbol, count: u64) -> NodeId {
        if let Some(rule) = symbol.as_rule()
            && count > 0
        {
            self.rules[rule as usize].uses += 1;
        }
        let id = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(Node { symbol, count, previous: NONE, next: NONE, stamp: 0 });
            self.nodes.len() as NodeId - 1
        });
        let node = &mut self.nodes[id as usize];
        (node.symbol, node.count) = (symbol, count);
        id
    }

    fn free_node(&mut self, id: NodeId) {
        let Node { symbol, count, .. } = self.nodes[id as usize];
        if let Some(rule) = symbol.as_rule()
            && count > 0
        {
            self.rules[rule as usize].uses -= 1;
        }
        let node = &mut self.nodes[id as usize];
        node.count = 0;
        node.stamp = node.stamp.wrapping_add(1);
        self.free_nodes.push(id);
    }

    fn new_rule(&mut self) -> u32 {
        let number = self.free_rules.pop().unwrap_or_else(|| {
            self.rules.push(Rule { head: NONE, uses: 0 });
            self.rules.len() as u32 - 1
        });
        let head = self.new_node(Symbol::rule(number), 0);
        self.link(head, head);
        self.rules[number as usize] = Rule { head, uses: 0 };
        number
    }

    /// The pair that begins with a node; none at either end of a rule.
    fn pair(&self, left: NodeId) -> Option<(Repeated, Repeated)> {
        let right = self.next(left);
        (!self.is_head(left) && !self.is_head(right)).then(|| (self.repeated(left), self.repeated(right)))
    }

    /// Forgets the pair that begins with a node, before one of both changes.
    fn forget_pair(&mut self, left: NodeId) {
        if let Some(pair) = self.pair(left)
            && self.pairs.get(&pair) == Some(&left)
        {
            self.pairs.remove(&pair);
        }
    }

    fn note_pair(&mut self, left: NodeId) {
        if !self.is_head(left) {
            self.new_pairs.push((left, self.nodes[left as usize].stamp));
        }
    }

    /// Replaces pairs that occur twice, until none does.
    fn settle(&mut self) {
        while let Some((left, stamp)) = self.new_pairs.pop() {
            let Node { stamp: now, count, .. } = self.nodes[left as usize];
            if now != stamp || count == 0 {
                continue;
            }
            let Some(pair) = self.pair(left) else { continue };
            // The last of all may still grow.
            if self.next(self.next(left)) == self.rules[0].head {
                continue;
            }
            match self.pairs.get(&pair) {
                None => drop(self.pairs.insert(pair, left)),
                Some(&other) if other == left => {}
                Some(&other) => self.join_equal(left, other, pair),
            }
        }
    }

    /// Has a rule in place of two equal pairs.
    fn join_equal(&mut self, left: NodeId, other: NodeId, (first, second): (Repeated, Repeated)) {
        let before = self.previous(other);
        let is_whole_rule =
            self.is_head(before) && self.is_head(self.next(self.next(other))) && before != self.rules[0].head;
        let rule = if is_whole_rule {
            self.nodes[before as usize].symbol.as_rule().unwrap_or_default()
        } else {
            let rule = self.new_rule();
            let head = self.rules[rule as usize].head;
            let [first_node, second_node] =
                [first, second].map(|(symbol, count)| self.new_node(symbol, count));
            self.link(head, first_node);
            self.link(first_node, second_node);
            self.link(second_node, head);
            self.replace(other, rule);
            self.pairs.insert((first, second), first_node);
            rule
        };
        self.replace(left, rule);
        let head = self.rules[rule as usize].head;
        self.expand_single_use(self.next(head));
        self.expand_single_use(self.previous(head));
    }

    /// Has a rule in place of the pair that begins with a node.
    fn replace(&mut self, left: NodeId, rule: u32) {
        let right = self.next(left);
        let (before, after) = (self.previous(left), self.next(right));
        for pair in [before, left, right] {
            self.forget_pair(pair);
        }
        let node = self.new_node(Symbol::rule(rule), 1);
        self.free_node(left);
        self.free_node(right);
        self.link(before, node);
        self.link(node, after);
        let node = if self.join_next(before) { before } else { node };
        self.join_next(node);
    }

    /// Makes a node and the next one a single node if their symbols are equal; else their pair is
    /// new.
    fn join_next(&mut self, left: NodeId) -> bool {
        let right = self.next(left);
        let are_equal = !self.is_head(left)
            && !self.is_head(right)
            && self.nodes[left as usize].symbol == self.nodes[right as usize].symbol;
        if are_equal {
            self.forget_pair(self.previous(left));
            self.forget_pair(right);
            self.nodes[left as usize].count += self.nodes[right as usize].count;
            self.link(left, self.next(right));
            self.free_node(right);
            self.note_pair(self.previous(left));
        }
        self.note_pair(left);
        are_equal
    }

    /// Puts the body of a rule in the place of its only use.
    fn expand_single_use(&mut self, node: NodeId) {
        let Some(rule) = self.nodes[node as usize].symbol.as_rule() else { return };
        if self.is_head(node) || self.nodes[node as usize].count != 1 || self.rules[rule as usize].uses != 1 {
            return;
        }
        let (before, after) = (self.previous(node), self.next(node));
        self.forget_pair(before);
        self.forget_pair(node);
        let head = self.rules[rule as usize].head;
        let (first, last) = (self.next(head), self.previous(head));
        self.free_node(node);
        self.free_node(head);
        self.rules[rule as usize].head = NONE;
        self.free_rules.push(rule);
        self.link(before, first);
        self.link(last, after);
        let is_joined = self.join_next(before);
        self.join_next(if is_joined && first == last { before } else { last });
    }
}

#[cfg(test)]
mod tests;
