//! Open requests with shared handles, in two orders: those of each handle by age, and in chains by
//! handle and variable, the youngest first.

use super::{Owner, RequestKind};
use mpisee_profile::CommId;

/// "No entry".
const NONE: u32 = u32::MAX;
/// Chains at first; a power of two.
const FIRST_CHAINS: usize = 256;
/// The number of oldest requests of a handle among which a moved one is looked for.
const LOOK_AHEAD: usize = 64;

/// A request with a shared handle, by the address of the variable in which it was stored.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct ByVariable {
    /// The handle; 0 for none.
    pub key: u64,
    /// The address of the variable.
    pub variable: usize,
    pub owner: Owner,
    /// Its number among all that were started.
    pub number: u32,
}

const _: () = assert!(size_of::<ByVariable>() == 32);

impl ByVariable {
    pub const NONE: ByVariable = ByVariable {
        key: 0,
        variable: 0,
        owner: Owner {
            communicator: CommId::NONE,
            kind: RequestKind::Send,
            peer: 0,
            active: false,
            recorded: false,
            doubtful: false,
        },
        number: 0,
    };

    #[inline(always)]
    pub fn is(&self, key: u64, variable: usize) -> bool {
        self.key == key && self.variable == variable
    }
}

/// The requests.
#[derive(Default)]
pub struct Entries {
    nodes: Vec<Node>,
    free: Vec<u32>,
    count: usize,
    /// Few: MPI libraries have one handle for all such requests, or one for each kind.
    ages: Vec<Ages>,
    chains: Vec<u32>,
}

/// The ends of the list of one handle's requests by age.
#[derive(Clone, Copy)]
struct Ages {
    key: u64,
    oldest: u32,
    youngest: u32,
}

#[derive(Clone, Copy)]
struct Node {
    started: ByVariable,
    /// The thread that started it.
    thread: usize,
    older: u32,
    younger: u32,
    next_in_chain: u32,
    previous_in_chain: u32,
}

impl Entries {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds one, unless there is no memory for it.
    pub fn add(&mut self, started: ByVariable, thread: usize) {
        if self.count >= self.chains.len() && !self.lengthen() {
            return;
        }
        let Some(ages) = self.ages_of(started.key) else { return };
        let Some(at) = self.free_node() else { return };
        // As a rule the youngest: what was displaced from its variable may be older than some that
        // came before.
        let (mut older, mut younger) = (self.ages[ages].youngest, NONE);
        while let Some(node) = self.nodes.get(older as usize)
            && is_before(started.number, node.started.number)
        {
            (older, younger) = (node.older, older);
        }
        self.nodes[at as usize] =
            Node { started, thread, older, younger, next_in_chain: NONE, previous_in_chain: NONE };
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.younger = at,
            None => self.ages[ages].oldest = at,
        }
        match self.nodes.get_mut(younger as usize) {
            Some(younger) => younger.older = at,
            None => self.ages[ages].youngest = at,
        }
        self.chain_up(at);
        self.count += 1;
    }

    /// The list of a handle; `None` if there is no memory for a new one.
    fn ages_of(&mut self, key: u64) -> Option<usize> {
        let there = self.ages.iter().position(|ages| ages.key == key);
        there.or_else(|| {
            self.ages.try_reserve(1).ok()?;
            self.ages.push(Ages { key, oldest: NONE, youngest: NONE });
            Some(self.ages.len() - 1)
        })
    }

    /// A node for a new entry; `None` if there is no memory for it.
    fn free_node(&mut self) -> Option<u32> {
        let free = self.free.pop();
        if free.is_none() && self.has_room() {
            self.nodes.push(Node {
                started: ByVariable::NONE,
                thread: 0,
                older: NONE,
                younger: NONE,
                next_in_chain: NONE,
                previous_in_chain: NONE,
            });
            return Some(self.nodes.len() as u32 - 1);
        }
        free
    }

    /// Returns whether there is room for a further node, and for each in the list of free ones.
    fn has_room(&mut self) -> bool {
        self.nodes.try_reserve(1).is_ok() && self.free.try_reserve(self.nodes.capacity()).is_ok()
    }

    /// Puts an entry at the head of its chain.
    fn chain_up(&mut self, at: u32) {
        let ByVariable { key, variable, .. } = self.nodes[at as usize].started;
        let chain = self.chain(key, variable);
        let next = std::mem::replace(&mut self.chains[chain], at);
        self.nodes[at as usize].next_in_chain = next;
        self.nodes[at as usize].previous_in_chain = NONE;
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.previous_in_chain = at;
        }
    }

    /// The chain of a handle and a variable, by multiplication: addresses, which nobody chooses
    /// with ill intent.
    #[inline]
    fn chain(&self, key: u64, variable: usize) -> usize {
        let mixed = (key.rotate_left(32) ^ variable as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & self.chains.len().wrapping_sub(1)
    }

    /// Twice as many chains, with the same entries. Without memory for them they stay as they are;
    /// false if there are none.
    #[cold]
    fn lengthen(&mut self) -> bool {
        let count = FIRST_CHAINS.max(self.chains.len() * 2);
        let mut chains = Vec::new();
        if chains.try_reserve_exact(count).is_err() {
            return !self.chains.is_empty();
        }
        chains.resize(count, NONE);
        self.chains = chains;
        for ages in 0..self.ages.len() {
            let mut at = self.ages[ages].oldest;
            while let Some(younger) = self.nodes.get(at as usize).map(|node| node.younger) {
                self.chain_up(at);
                at = younger;
            }
        }
        true
    }

    /// The youngest of the variable; else one whose handle was moved: the oldest with that handle,
    /// if there is one of the communicator `prefer`, and of the calling thread.
    #[inline]
    pub fn find(&self, key: u64, variable: usize, thread: usize, prefer: Option<CommId>) -> Option<u32> {
        let mut at = self.chains.get(self.chain(key, variable)).copied().unwrap_or(NONE);
        while let Some(node) = self.nodes.get(at as usize) {
            if node.started.is(key, variable) {
                return Some(at);
            }
            at = node.next_in_chain;
        }
        self.find_moved(key, thread, prefer)
    }

    #[cold]
    fn find_moved(&self, key: u64, thread: usize, prefer: Option<CommId>) -> Option<u32> {
        let oldest = self.ages.iter().find(|ages| ages.key == key)?.oldest;
        let node = |at: u32| self.nodes.get(at as usize);
        let oldest_first = std::iter::successors(node(oldest).map(|_| oldest), |&at| {
            node(at).map(|node| node.younger).filter(|&younger| node(younger).is_some())
        });
        let fits = |at: u32| {
            let node = &self.nodes[at as usize];
            (prefer == Some(node.started.owner.communicator), node.thread == thread)
        };
        // The best fit is the first of several; none is better than one in all that was asked for.
        let (mut best, in_all) = (None, (prefer.is_some(), true));
        for at in oldest_first.take(LOOK_AHEAD) {
            let fit = fits(at);
            if best.is_none_or(|(_, before)| fit > before) {
                best = Some((at, fit));
            }
            if fit == in_all {
                break;
            }
        }
        best.map(|(at, _)| at)
    }

    /// Whose an entry is.
    pub fn owner(&mut self, at: u32) -> &mut Owner {
        &mut self.nodes[at as usize].started.owner
    }

    /// Removes the oldest of all.
    pub fn remove_oldest(&mut self) {
        let number = |at: u32| self.nodes.get(at as usize).map(|node| node.started.number);
        let heads = self.ages.iter().filter_map(|ages| Some((ages.oldest, number(ages.oldest)?)));
        let oldest = heads.reduce(|first, other| if is_before(other.1, first.1) { other } else { first });
        if let Some((at, _)) = oldest {
            self.remove(at);
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, at: u32) -> Owner {
        let Node { started, older, younger, next_in_chain, previous_in_chain, .. } = self.nodes[at as usize];
        let ages = self.ages.iter().position(|ages| ages.key == started.key);
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.younger = younger,
            None => ages.into_iter().for_each(|ages| self.ages[ages].oldest = younger),
        }
        match self.nodes.get_mut(younger as usize) {
            Some(younger) => younger.older = older,
            None => ages.into_iter().for_each(|ages| self.ages[ages].youngest = older),
        }
        if let Some(next) = self.nodes.get_mut(next_in_chain as usize) {
            next.previous_in_chain = previous_in_chain;
        }
        match self.nodes.get_mut(previous_in_chain as usize) {
            Some(previous) => previous.next_in_chain = next_in_chain,
            None => {
                let chain = self.chain(started.key, started.variable);
                self.chains[chain] = next_in_chain;
            }
        }
        self.free.push(at);
        self.count -= 1;
        started.owner
    }
}

/// Returns whether the request of one number was started before that of another; numbers begin anew
/// after the largest.
fn is_before(one: u32, other: u32) -> bool {
    (other.wrapping_sub(one) as i32) > 0
}
