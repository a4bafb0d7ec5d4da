//! The refreshing screen.

use super::job::Job;
use super::report::{Report, SortKey};
use super::{Seen, Watch, before};
use crate::output::{Page, on_terminal};
use crate::signals;
use crate::units::count;
use anyhow::{Context, Result};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use std::io::Write;
use std::time::{Duration, Instant};

/// How long a signal may wait for an answer.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows the jobs until the user quits or all jobs have ended. The terminal is always restored.
pub fn run(watch: &Watch, first: Seen, interval_s: f64, hang_s: f64, sort: SortKey) -> Result<()> {
    signals::catch();
    let terminal = ratatui::try_init().context("cannot use the terminal; --once does without");
    let ended = terminal.and_then(|mut terminal| {
        let mut screen = Screen::new(watch, first, hang_s, sort);
        screen.show(Duration::from_secs_f64(interval_s), |screen| {
            terminal.draw(|frame| screen.draw(frame)).map(drop).context("cannot write to the terminal")
        })
    });
    ratatui::restore();
    if let Some(signal) = signals::caught() {
        signals::die_of(signal);
    }
    if ended? == Ended::Job {
        writeln!(std::io::stdout(), "the job has ended")?;
    }
    Ok(())
}

/// Why the screen is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The user asked for it, or a signal.
    Asked,
    /// No job is left.
    Job,
}

struct Screen<'w> {
    watch: &'w Watch,
    hang_s: f64,
    sort: SortKey,
    before: Seen,
    now: Seen,
    /// The job that is shown, by its place among all.
    shown: usize,
    paused: bool,
    /// The first line that is shown.
    first_line: u16,
    /// Lines that there are, and that fit, at the last drawing.
    lines: u16,
    fitting: u16,
    /// A remark beside the keys.
    remark: String,
}

impl<'w> Screen<'w> {
    fn new(watch: &'w Watch, first: Seen, hang_s: f64, sort: SortKey) -> Self {
        let before = Seen { begin_ns: 0, end_ns: 0, jobs: Vec::new(), skipped: Vec::new(), left_behind: 0 };
        Screen {
            watch,
            hang_s,
            sort,
            before,
            now: first,
            shown: 0,
            paused: false,
            first_line: 0,
            lines: 0,
            fitting: 0,
            remark: String::new(),
        }
    }

    fn show(&mut self, interval: Duration, mut draw: impl FnMut(&mut Self) -> Result<()>) -> Result<Ended> {
        let mut due = Instant::now() + interval;
        loop {
            draw(self)?;
            loop {
                let left = due.saturating_duration_since(Instant::now()).min(PATIENCE);
                let is_event = event::poll(left);
                if signals::caught().is_some() {
                    return Ok(Ended::Asked);
                }
                if is_event.context("cannot read from the terminal")? {
                    match event::read().context("cannot read from the terminal")? {
                        Event::Key(key) if key.kind != KeyEventKind::Release && self.is_asked_to_end(key) => {
                            return Ok(Ended::Asked);
                        }
                        _ => {}
                    }
                    break;
                }
                if Instant::now() >= due {
                    break;
                }
            }
            if Instant::now() >= due {
                due = Instant::now() + interval;
                if !self.paused && !self.look()? {
                    return Ok(Ended::Job);
                }
            }
        }
    }

    /// Looks again; false if no job is left.
    fn look(&mut self) -> Result<bool> {
        let seen = self.watch.look()?;
        let id = self.now.jobs.get(self.shown).map(|job| job.id);
        self.before = std::mem::replace(&mut self.now, seen);
        match self.now.jobs.iter().position(|job| Some(job.id) == id) {
            Some(place) => self.shown = place,
            None => {
                self.shown = 0;
                self.remark = "the job that was shown has ended".to_owned();
            }
        }
        Ok(!self.now.jobs.is_empty())
    }

    fn is_asked_to_end(&mut self, key: KeyEvent) -> bool {
        let page = self.fitting.max(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => return true,
            KeyCode::Char('p' | 'P' | ' ') => self.paused = !self.paused,
            KeyCode::Char('t') => self.sort = SortKey::Time,
            KeyCode::Char('c') => self.sort = SortKey::Calls,
            KeyCode::Char('b') => self.sort = SortKey::Bytes,
            KeyCode::Char('n') => self.sort = SortKey::Name,
            KeyCode::Up | KeyCode::Char('k') => self.first_line = self.first_line.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first_line = self.first_line.saturating_add(1),
            KeyCode::PageUp => self.first_line = self.first_line.saturating_sub(page),
            KeyCode::PageDown => self.first_line = self.first_line.saturating_add(page),
            KeyCode::Home => self.first_line = 0,
            KeyCode::End => self.first_line = u16::MAX,
            KeyCode::Tab if !self.now.jobs.is_empty() => {
                self.shown = (self.shown + 1) % self.now.jobs.len();
                self.first_line = 0;
            }
            _ => {}
        }
        false
    }

    fn draw(&mut self, frame: &mut Frame) {
        let [body, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
        let page = Page { width: Some(body.width), colour: false };
        let text = self.now.jobs.get(self.shown).map_or(String::new(), |job| self.text(job, page));
        let lines = coloured(&on_terminal(&text, false));
        self.lines = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        self.fitting = body.height;
        self.first_line = self.first_line.min(self.lines.saturating_sub(self.fitting));
        let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((self.first_line, 0));
        frame.render_widget(paragraph, body);
        let style = Style::new().add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(self.foot()).style(style), foot);
    }

    fn text(&self, job: &Job, page: Page) -> String {
        Report::new(before(&self.before, job), job, self.sort, self.hang_s).text(job, page)
    }

    fn foot(&self) -> String {
        let mut foot = "q quit  p pause  t c b n sort  Tab next job".to_owned();
        if self.paused {
            foot += "  PAUSED";
        }
        if self.now.jobs.len() > 1 {
            foot += &format!("  job {} of {}", self.shown + 1, self.now.jobs.len());
        }
        let below = self.lines.saturating_sub(self.fitting).saturating_sub(self.first_line);
        if below > 0 {
            foot += &format!("  {} below", count(u64::from(below), "line"));
        }
        if !self.now.skipped.is_empty() {
            foot += &format!("  {} skipped", count(self.now.skipped.len() as u64, "segment"));
        }
        if !self.remark.is_empty() {
            foot += &format!("  {}", self.remark);
        }
        foot
    }
}

/// The lines in the colours of what they say; a line that begins with blanks goes on with the one
/// before.
fn coloured(text: &str) -> Vec<Line<'static>> {
    let mut style = Style::new();
    let line = |line: &str| {
        style = match line {
            _ if ["Waiting ", "Deadlock"].iter().any(|heading| line.starts_with(heading)) => {
                Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
            }
            _ if line.starts_with("COMM ") => Style::new().add_modifier(Modifier::BOLD),
            _ if line.starts_with(' ') => style,
            _ => Style::new(),
        };
        Line::styled(line.to_owned(), style)
    };
    text.lines().map(line).collect()
}
