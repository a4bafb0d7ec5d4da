//! Steps a process through its instructions between two marks.
//!
//! A mark is the instruction `int3`, which stops a process that is traced, with the mark's number
//! in a register. Between two marks the process runs one instruction at a time. Elsewhere it runs
//! at full speed.

use super::trace::{Instruction, Span, Window};
use anyhow::{Context, Result, bail, ensure};
use iced_x86::{Code, Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register};
use libc::{c_int, c_void, pid_t, user_regs_struct};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, Result as IoResult};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;

/// The most bytes of an instruction.
const LONGEST: usize = 15;
/// How `tools/overhead/call_cost.c` tells its marks from breakpoints of others: the upper half of
/// the register.
const MARKS: u64 = 0x5eed;

/// Runs a program to its end, and returns the instructions between its marks.
pub fn windows(command: &mut Command) -> Result<Vec<Window>> {
    // SAFETY: between fork and exec the process makes this system call alone, which takes no lock
    // and no memory.
    let command = unsafe { command.pre_exec(|| request(libc::PTRACE_TRACEME, 0, null_mut())) };
    let process = command.spawn()?.id().try_into().context("the program's number is no process")?;
    ensure!(wait(process)? == Stop::Signal(libc::SIGTRAP), "it did not start");
    // It ends with this thread, whatever happens here.
    let options = libc::PTRACE_O_EXITKILL as usize as *mut c_void;
    request(libc::PTRACE_SETOPTIONS, process, options).context("setting how it is traced")?;
    let mut traced = Traced::new(process)?;
    let mut windows = Vec::new();
    let mut signal = 0;
    loop {
        match traced.go_on(libc::PTRACE_CONT, signal)? {
            Stop::Exited(0) => return Ok(windows),
            Stop::Exited(code) => bail!("it ended with exit code {code}"),
            Stop::Killed(by) => bail!("signal {by} ended it"),
            Stop::Signal(libc::SIGTRAP) => {
                let mark = Mark::new(&traced.registers()?).context("a trap that is no mark stopped it")?;
                ensure!(mark.begins, "operation {} ends, and did not begin", mark.operation);
                windows.push(traced.window(mark.operation)?);
                signal = 0;
            }
            Stop::Signal(other) => signal = other,
        }
    }
}

/// A mark that the program has reached.
struct Mark {
    operation: u64,
    begins: bool,
}

impl Mark {
    fn new(registers: &user_regs_struct) -> Option<Mark> {
        let (kind, number) = (registers.rax >> 32, registers.rax & 0xffff_ffff);
        (kind == MARKS).then_some(Mark { operation: number / 2, begins: number.is_multiple_of(2) })
    }
}

/// Time in which a tick passes from one reading to the next. With any other time a call would now
/// and then be a slow one, for which the library does more.
#[derive(Default)]
struct Clock {
    /// The last reading that the program got.
    last: Option<u64>,
}

impl Clock {
    /// Changes what the program has read.
    fn correct(&mut self, read: &mut user_regs_struct) {
        let now = self.last.map_or(read.rdx << 32 | read.rax, |last| last + 1);
        self.last = Some(now);
        (read.rax, read.rdx) = (now & 0xffff_ffff, now >> 32);
    }
}

/// A process that is stopped.
struct Traced {
    process: pid_t,
    memory: File,
    /// The instructions that it has executed, by their address.
    decoded: HashMap<u64, iced_x86::Instruction>,
    information: InstructionInfoFactory,
}

impl Traced {
    fn new(process: pid_t) -> Result<Self> {
        let path = format!("/proc/{process}/mem");
        let memory = File::open(&path).with_context(|| format!("opening {path}"))?;
        Ok(Traced { process, memory, decoded: HashMap::new(), information: InstructionInfoFactory::new() })
    }

    /// Steps to the mark that ends an operation.
    fn window(&mut self, operation: u64) -> Result<Window> {
        let mut window = Window { operation, instructions: Vec::new() };
        let mut clock = Clock::default();
        let mut signal = 0;
        loop {
            let mut registers = self.registers()?;
            let instruction = self.decode(registers.rip)?;
            if instruction.code() == Code::Int3 {
                let mark =
                    Mark::new(&registers).context("a breakpoint that is no mark is within an operation")?;
                ensure!(mark.operation == operation && !mark.begins, "operation {operation} does not end");
                registers.rip = instruction.next_ip();
                self.request(libc::PTRACE_SETREGS, &raw mut registers)?;
                return Ok(window);
            }
            match self.go_on(libc::PTRACE_SINGLESTEP, signal)? {
                Stop::Signal(libc::SIGTRAP) => {
                    window.instructions.push(self.footprint(&instruction, &registers));
                    if matches!(instruction.code(), Code::Rdtsc | Code::Rdtscp) {
                        let mut read = self.registers()?;
                        clock.correct(&mut read);
                        self.request(libc::PTRACE_SETREGS, &raw mut read)?;
                    }
                    signal = 0;
                }
                // It comes before the instruction.
                Stop::Signal(other) => signal = other,
                Stop::Exited(_) | Stop::Killed(_) => bail!("it ended within operation {operation}"),
            }
        }
    }

    fn decode(&mut self, address: u64) -> Result<iced_x86::Instruction> {
        if let Some(&known) = self.decoded.get(&address) {
            return Ok(known);
        }
        let mut bytes = [0; LONGEST];
        let read = self.memory.read_at(&mut bytes, address).context("reading the traced program's code")?;
        let instruction = Decoder::with_ip(64, &bytes[..read], address, DecoderOptions::NONE).decode();
        ensure!(!instruction.is_invalid(), "unknown instruction {bytes:02x?} at {address:#x}");
        self.decoded.insert(address, instruction);
        Ok(instruction)
    }

    /// The code and data that an instruction uses with these registers.
    fn footprint(
        &mut self,
        instruction: &iced_x86::Instruction,
        registers: &user_regs_struct,
    ) -> Instruction {
        let code = Span { begin: instruction.ip(), bytes: instruction.len() as u64 };
        let used = self.information.info(instruction).used_memory().iter();
        let used = used.filter(|memory| memory.access() != OpAccess::NoMemAccess);
        let data = used.filter_map(|memory| {
            let begin = memory.virtual_address(0, |register, _, _| value(registers, register))?;
            // A repeated instruction stops after each time.
            let bytes = match memory.memory_size().size() {
                0 => instruction.memory_size().size(),
                size => size,
            };
            Some(Span { begin, bytes: bytes as u64 })
        });
        Instruction { code, data: data.collect() }
    }

    fn registers(&self) -> Result<user_regs_struct> {
        // SAFETY: all of its fields are numbers, for which zero is a value.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETREGS, &raw mut registers)?;
        Ok(registers)
    }

    fn request(&self, what: libc::c_uint, registers: *mut user_regs_struct) -> Result<()> {
        request(what, self.process, registers.cast()).context("asking for the traced program's registers")
    }

    /// Lets the process go on with a signal, or none, up to the next stop.
    fn go_on(&self, how: libc::c_uint, signal: c_int) -> Result<Stop> {
        request(how, self.process, signal as usize as *mut c_void)
            .context("letting the traced program go on")?;
        wait(self.process)
    }
}

/// The value of a register in an address.
fn value(registers: &user_regs_struct, register: Register) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        // Vectors of addresses.
        _ => return None,
    };
    Some(if register.size() == 4 { whole & 0xffff_ffff } else { whole })
}

/// Why a process has stopped.
#[derive(PartialEq, Eq)]
enum Stop {
    Exited(c_int),
    Killed(c_int),
    Signal(c_int),
}

fn wait(process: pid_t) -> Result<Stop> {
    let mut status = 0;
    // SAFETY: the status is written to a local variable.
    let waited = unsafe { libc::waitpid(process, &raw mut status, libc::__WALL) };
    ensure!(waited == process, "waiting for the traced program: {}", Error::last_os_error());
    Ok(if libc::WIFEXITED(status) {
        Stop::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Stop::Killed(libc::WTERMSIG(status))
    } else {
        Stop::Signal(libc::WSTOPSIG(status))
    })
}

fn request(what: libc::c_uint, process: pid_t, data: *mut c_void) -> IoResult<()> {
    // SAFETY: `data` is null, a signal, or where the registers of a process have room.
    match unsafe { libc::ptrace(what, process, null_mut::<c_void>(), data) } {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}
