//! The suite's lists of tests.

use std::path::{Path, PathBuf};

/// A line of a list: a program, the number of its ranks, and options.
#[derive(Clone, Debug, Default)]
pub struct Test {
    /// The directory of the program, relative to the suite's root.
    pub directory: PathBuf,
    /// The program.
    pub program: String,
    /// Processes.
    pub ranks: u32,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Variables of the environment.
    pub variables: Vec<(String, String)>,
    /// Options of MPICH's launcher.
    pub launcher_options: Vec<String>,
    /// The criterion of success.
    pub success: Success,
    /// The suite's own time limit.
    pub limit_s: Option<u64>,
    /// Memory that the test needs.
    pub memory_gb: f64,
}

/// The outcome that the suite expects: `resultTest=`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Success {
    /// Exit code 0, and no output but `No Errors`.
    #[default]
    NoErrors,
    /// `TestStatus`, `TestErrFatal`: an exit code other than 0.
    Failure,
    /// `TestStatusNoErrors`: both an exit code other than 0 and `No Errors`.
    FailureNoErrors,
}

impl Test {
    /// The test's place in the suite: unique but for lines that a list repeats.
    pub fn name(&self) -> String {
        let mut name = format!("{}/{} {}", self.directory.display(), self.program, self.ranks);
        self.arguments.iter().for_each(|argument| name += &format!(" {argument}"));
        self.variables.iter().for_each(|(variable, value)| name += &format!(" {variable}={value}"));
        name
    }

    /// The first component of the directory, by which results are summed.
    pub fn top(&self) -> String {
        let first = self.directory.components().next();
        first.map_or_else(String::new, |first| first.as_os_str().to_string_lossy().into_owned())
    }

    fn parse(directory: &Path, line: &str) -> Option<Test> {
        let mut words = line.split('#').next()?.split_whitespace();
        let path = directory.join(words.next()?);
        let program = path.file_name()?.to_string_lossy().into_owned();
        let directory = normalized(path.parent()?);
        let ranks = words.next().and_then(|ranks| ranks.parse().ok()).unwrap_or(2);
        let mut test = Test { directory, program, ranks, ..Test::default() };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "arg" => test.arguments.push(value.to_owned()),
                "env" => {
                    let (name, value) = value.split_once('=').unwrap_or((value, ""));
                    test.variables.push((name.to_owned(), value.to_owned()));
                }
                "mpiexecarg" => test.launcher_options.push(value.to_owned()),
                "timeLimit" => test.limit_s = value.parse().ok(),
                "mem" => test.memory_gb = value.parse().unwrap_or_default(),
                "resultTest" if value == "TestStatusNoErrors" => test.success = Success::FailureNoErrors,
                "resultTest" => test.success = Success::Failure,
                // `strict`, `mpix`, `xfail`: the run without the profiler shows whether this MPI
                // passes.
                _ => {}
            }
        }
        Some(test)
    }
}

/// A path without `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        if component.as_os_str() == ".." {
            normal.pop();
        } else {
            normal.push(component);
        }
    }
    normal
}

/// The tests of a directory and of those below it that its list names. A list that configure made
/// comes before the one in the source.
pub fn read(source: &Path, build: &Path, directory: &Path, lists: &[String]) -> Vec<Test> {
    let mut tests = Vec::new();
    for list in lists {
        let text = [build, source]
            .iter()
            .find_map(|root| std::fs::read_to_string(root.join(directory).join(list)).ok())
            .unwrap_or_default();
        for test in text.lines().filter_map(|line| Test::parse(directory, line)) {
            let below = test.directory.join(&test.program);
            if !source.join(&below).is_dir() {
                tests.push(test);
            } else if !tests.iter().any(|test: &Test| test.directory == below) {
                tests.extend(read(source, build, &below, lists));
            }
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_every_option_is_read() {
        let line = "../coll/bcast 4 arg=-count=1 arg=x env=A=b=c timeLimit=420 mem=1.2 xfail=t resultTest=TestStatus # no";
        let test = Test::parse(Path::new("threads/coll"), line).expect("a test");
        assert_eq!(test.name(), "threads/coll/bcast 4 -count=1 x A=b=c");
        assert_eq!((test.limit_s, test.memory_gb, test.success), (Some(420), 1.2, Success::Failure));
        assert_eq!(test.top(), "threads");
    }

    #[test]
    fn comments_and_blank_lines_are_no_tests() {
        assert!(Test::parse(Path::new("io"), "#perf 2").is_none());
        assert!(Test::parse(Path::new("io"), "   ").is_none());
        assert_eq!(Test::parse(Path::new("io"), "simple").expect("a test").ranks, 2);
    }
}
