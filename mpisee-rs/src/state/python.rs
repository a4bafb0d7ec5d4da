//! Python on call paths: its lines take the place of the interpreter's frames.
//!
//! mpi4py has released the GIL where a call may be slow, so that nothing is asked of the
//! interpreter: the thread's frames are read as they lie in memory
//! ([`mpisee_in_process::python_frames`]).

use crate::binaries::objects;
use mpisee_in_process::python_frames::{Frame, Memory, Python, Unsupported};
use mpisee_profile::segment::log::MOST_PATH_LINES;
use std::ops::Range;

/// A line on a stack of Python.
pub struct Line {
    pub file: String,
    pub function: String,
    pub line: u32,
}

/// The Python of the process, and its frames on the path that is taken.
pub struct PythonStack {
    python: Option<Result<Python, Unsupported>>,
    /// The addresses of the interpreter's code.
    interpreter: Range<usize>,
    memory: Memory,
    /// From the MPI call outwards.
    frames: Vec<Frame>,
    /// True if this path has led into the interpreter.
    is_entered: bool,
    /// The number of calls on paths through the interpreter whose lines could not be read.
    unread: u64,
}

impl PythonStack {
    pub fn new() -> PythonStack {
        PythonStack {
            python: None,
            interpreter: 0..0,
            memory: Memory::default(),
            frames: Vec::new(),
            is_entered: false,
            unread: 0,
        }
    }

    /// Looks whether there is a Python by now.
    pub fn look(&mut self) {
        if self.python.is_some() || self.frames.try_reserve(MOST_PATH_LINES).is_err() {
            return;
        }
        self.python = Python::find();
        let code = match &self.python {
            None => return,
            Some(Ok(python)) => python.code_address(),
            Some(Err(unsupported)) => unsupported.code_address,
        };
        self.interpreter = objects::object_at(code).map_or(0..0, |object| object.range);
    }

    /// Begins with another path.
    pub fn begin(&mut self) {
        self.frames.clear();
        self.is_entered = false;
    }

    /// Takes the next return address of a path; true if it is in the interpreter, and the thread's
    /// frames of Python are read.
    pub fn enter(&mut self, address: usize) -> bool {
        if self.is_entered || !self.interpreter.contains(&address) {
            return false;
        }
        self.is_entered = true;
        if let Some(Ok(python)) = &self.python
            && let Some(mut walk) = python.walk(&mut self.memory)
        {
            while self.frames.len() < MOST_PATH_LINES
                && let Some(frame) = python.next(&mut walk, &mut self.memory)
            {
                self.frames.push(frame);
            }
        }
        self.unread += u64::from(self.frames.is_empty());
        !self.frames.is_empty()
    }

    /// A key that tells the lines of this path apart from others, without finding out which lines
    /// they are; puts a number for each frame into `identities`, and returns how many there are.
    pub fn identities(&mut self, identities: &mut [usize]) -> usize {
        let Some(Ok(python)) = &self.python else { return 0 };
        let mut count = 0;
        for (frame, place) in self.frames.iter().zip(identities) {
            let Some(identity) = python.identity(frame, &mut self.memory) else { break };
            *place = identity as usize;
            count += 1;
        }
        count
    }

    /// The lines of this path.
    pub fn lines(&mut self) -> Vec<Line> {
        let Some(Ok(python)) = &self.python else { return Vec::new() };
        let memory = &mut self.memory;
        let line = |frame: &Frame| {
            Some(Line {
                file: python.file(frame, memory)?,
                function: python.function(frame, memory)?,
                line: python.line(frame, memory)?,
            })
        };
        self.frames.iter().map_while(line).collect()
    }

    /// Takes the paths so far as trials, of which nothing is missing.
    pub fn end_trials(&mut self) {
        self.unread = 0;
    }

    /// A sentence on lines that are missing, if some are.
    pub fn note(&self) -> Option<String> {
        let why = match &self.python {
            Some(Err(Unsupported { version, .. })) => format!("Python {version} is not supported"),
            _ => "the interpreter's frames could not be read".to_owned(),
        };
        let paths = if self.unread == 1 { "1 call".to_owned() } else { format!("{} calls", self.unread) };
        (self.unread > 0).then(|| format!("the lines of Python are missing from the paths of {paths}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_through_a_python_that_is_not_supported_are_counted() {
        let python = Some(Err(Unsupported { version: "3.99.0".to_owned(), code_address: 0x5000 }));
        let mut stack = PythonStack { python, interpreter: 0x5000..0x6000, ..PythonStack::new() };
        for outside in [0x4fff, 0x6000] {
            stack.begin();
            assert!(!stack.enter(outside));
        }
        assert_eq!(stack.note(), None);
        for _ in 0..2 {
            stack.begin();
            // A path leads through several functions of the interpreter.
            assert!(!stack.enter(0x5000) && !stack.enter(0x5001));
        }
        assert_eq!((stack.identities(&mut [0; 4]), stack.lines().len()), (0, 0));
        let note = stack.note().expect("some are missing");
        assert_eq!(
            note,
            "the lines of Python are missing from the paths of 2 calls: Python 3.99.0 is not supported"
        );
        stack.end_trials();
        assert_eq!(stack.note(), None);
    }
}
