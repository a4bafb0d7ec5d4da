//! Frames whose caller is found by a computation, a DWARF expression (DWARF 5, 6.4.2), that may
//! read memory.
//!
//! Compilers write one for a function that aligns its stack (vectors of 32 bytes and more), and the
//! C library for its return from a signal's handler: the caller's stack pointer is in memory there.
//! What an expression of these does is computed here, step by step, without a jump; others are not.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian, Operation, Register,
    RegisterRule, UnwindContext, UnwindExpression,
};

/// Numbers of registers in unwind tables (System V ABI of x86-64, figure 3.36).
const FRAME_POINTER: Register = Register(6);
const STACK_POINTER: Register = Register(7);
const RETURN_ADDRESS: Register = Register(16);

type Section<'t> = EhFrame<EndianSlice<'t, LittleEndian>>;
type Entry<'t> = FrameDescriptionEntry<EndianSlice<'t, LittleEndian>>;

/// The registers by which frames are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The address to which the function returns, or at which it is.
    pub address: u64,
    /// The stack pointer.
    pub stack: u64,
    /// The frame pointer.
    pub frame: u64,
}

/// How the caller of a function is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputedFrame {
    /// The stack pointer of the caller, as a value.
    stack: Value,
    frame: Value,
    address: Value,
}

/// How the rules of an address can be followed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a walk allocates nothing for it, and there is one at a time")]
pub enum Caller {
    /// By registers alone.
    ByRegisters,
    /// By a computation.
    Computed(ComputedFrame),
    /// By a computation that is not known here, or a register that is not followed.
    Unknown,
}

/// A value of a register.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// As it is.
    Same,
    /// A distance behind the caller's stack pointer.
    BehindStack(i64),
    /// The word that is stored there.
    StoredBehindStack(i64),
    Computed(Steps),
    /// The word that is stored at the address that is computed.
    StoredAt(Steps),
    /// None: an undefined return address marks the outermost function, which has no caller.
    None,
}

/// Steps of a computation at most: the longest of compilers and linkers has 8.
const MOST_STEPS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Steps {
    steps: [Step; MOST_STEPS],
    count: usize,
}

/// A step on a stack of values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Constant(u64),
    /// A register and what is added.
    StackPointer(i64),
    FramePointer(i64),
    Address(i64),
    Load,
    Add(u64),
    Plus,
    Minus,
    And,
    ShiftLeft,
    IsGreaterOrEqual,
}

impl Caller {
    /// How the rules of an entry lead to the caller from `address`; on other machines than x86-64
    /// always by registers.
    pub(crate) fn from_entry(
        entry: &Entry,
        section: &Section,
        bases: &BaseAddresses,
        address: u64,
    ) -> Caller {
        if !cfg!(target_arch = "x86_64") {
            return Caller::ByRegisters;
        }
        let mut context = UnwindContext::new();
        // What cannot be parsed is left to the unwinder, which cannot either.
        let Ok(row) = entry.unwind_info_for_address(section, bases, &mut context, address) else {
            return Caller::ByRegisters;
        };
        let steps = |expression: &UnwindExpression<usize>| Steps::from_expression(expression, entry, section);
        let is_computed = |register| {
            matches!(row.register(register), RegisterRule::Expression(_) | RegisterRule::ValExpression(_))
        };
        let stack = match row.cfa() {
            CfaRule::Expression(expression) => steps(expression).map(Value::Computed),
            &CfaRule::RegisterAndOffset { register, offset } => match register {
                FRAME_POINTER | STACK_POINTER
                    if !is_computed(FRAME_POINTER) && !is_computed(RETURN_ADDRESS) =>
                {
                    return Caller::ByRegisters;
                }
                FRAME_POINTER => Some(Value::Computed(Steps::one(Step::FramePointer(offset)))),
                STACK_POINTER => Some(Value::Computed(Steps::one(Step::StackPointer(offset)))),
                _ => None,
            },
        };
        let value = |register| match row.register(register) {
            RegisterRule::SameValue => Some(Value::Same),
            RegisterRule::Undefined if register == FRAME_POINTER => Some(Value::Same),
            RegisterRule::Undefined => Some(Value::None),
            RegisterRule::Offset(offset) => Some(Value::StoredBehindStack(offset)),
            RegisterRule::ValOffset(offset) => Some(Value::BehindStack(offset)),
            RegisterRule::Expression(expression) => steps(&expression).map(Value::StoredAt),
            RegisterRule::ValExpression(expression) => steps(&expression).map(Value::Computed),
            _ => None,
        };
        match (stack, value(FRAME_POINTER), value(RETURN_ADDRESS)) {
            (Some(stack), Some(frame), Some(address)) => {
                Caller::Computed(ComputedFrame { stack, frame, address })
            }
            _ => Caller::Unknown,
        }
    }
}

impl ComputedFrame {
    /// Returns whether the frame is that of the outermost function, which has no caller.
    pub fn is_outermost(&self) -> bool {
        self.address == Value::None
    }

    /// The caller's registers; `None` where there is none, or `read` knows no word at an address
    /// that it takes.
    pub fn caller(&self, own: Registers, mut read: impl FnMut(u64) -> Option<u64>) -> Option<Registers> {
        // What is computed of other registers begins with the caller's stack pointer.
        let stack = self.stack.compute(own, own.stack, own.stack, &mut read)?;
        let frame = self.frame.compute(own, stack, own.frame, &mut read)?;
        let address = self.address.compute(own, stack, own.address, &mut read)?;
        Some(Registers { address, stack, frame })
    }
}

impl Value {
    fn compute(
        &self,
        own: Registers,
        stack: u64,
        before: u64,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Option<u64> {
        match self {
            Value::Same => Some(before),
            Value::BehindStack(distance) => Some(stack.wrapping_add_signed(*distance)),
            Value::StoredBehindStack(distance) => read(stack.wrapping_add_signed(*distance)),
            Value::Computed(steps) => steps.run(own, stack, read),
            Value::StoredAt(steps) => {
                let at = steps.run(own, stack, read)?;
                read(at)
            }
            Value::None => None,
        }
    }
}

impl Steps {
    fn one(step: Step) -> Steps {
        let mut steps = [Step::Load; MOST_STEPS];
        steps[0] = step;
        Steps { steps, count: 1 }
    }

    /// `None` for a computation that is not known here.
    fn from_expression(
        expression: &UnwindExpression<usize>,
        entry: &Entry,
        section: &Section,
    ) -> Option<Steps> {
        let mut operations = expression.get(section).ok()?.operations(entry.cie().encoding());
        let mut steps = Steps { steps: [Step::Load; MOST_STEPS], count: 0 };
        while let Some(operation) = operations.next().ok()? {
            let step = match operation {
                Operation::UnsignedConstant { value } => Step::Constant(value),
                Operation::SignedConstant { value } => Step::Constant(value.cast_unsigned()),
                Operation::RegisterOffset { register: STACK_POINTER, offset, .. } => {
                    Step::StackPointer(offset)
                }
                Operation::RegisterOffset { register: FRAME_POINTER, offset, .. } => {
                    Step::FramePointer(offset)
                }
                Operation::RegisterOffset { register: RETURN_ADDRESS, offset, .. } => Step::Address(offset),
                Operation::Deref { size: 8, space: false, .. } => Step::Load,
                Operation::PlusConstant { value } => Step::Add(value),
                Operation::Plus => Step::Plus,
                Operation::Minus => Step::Minus,
                Operation::And => Step::And,
                Operation::Shl => Step::ShiftLeft,
                Operation::Ge => Step::IsGreaterOrEqual,
                Operation::Nop => continue,
                _ => return None,
            };
            *steps.steps.get_mut(steps.count)? = step;
            steps.count += 1;
        }
        Some(steps)
    }

    fn run(&self, own: Registers, stack: u64, read: &mut impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let mut values = [0; MOST_STEPS + 1];
        values[0] = stack;
        let mut last = 0;
        for step in &self.steps[..self.count] {
            let pushed = match *step {
                Step::Constant(value) => Some(value),
                Step::StackPointer(distance) => Some(own.stack.wrapping_add_signed(distance)),
                Step::FramePointer(distance) => Some(own.frame.wrapping_add_signed(distance)),
                Step::Address(distance) => Some(own.address.wrapping_add_signed(distance)),
                _ => None,
            };
            if let Some(value) = pushed {
                last += 1;
                values[last] = value;
                continue;
            }
            let top = values[last];
            let below = |last: usize| Some(values[last.checked_sub(1)?]);
            let value = match *step {
                Step::Load => read(top)?,
                Step::Add(value) => top.wrapping_add(value),
                Step::Plus => below(last)?.wrapping_add(top),
                Step::Minus => below(last)?.wrapping_sub(top),
                Step::And => below(last)? & top,
                Step::ShiftLeft => below(last)?.checked_shl(u32::try_from(top).ok()?).unwrap_or(0),
                Step::IsGreaterOrEqual => u64::from(below(last)?.cast_signed() >= top.cast_signed()),
                _ => return None,
            };
            if !matches!(step, Step::Load | Step::Add(_)) {
                last -= 1;
            }
            values[last] = value;
        }
        Some(values[last])
    }
}
