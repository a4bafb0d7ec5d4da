//! The place that stands for a call: the first frame outside of libraries and functions that call
//! MPI for the program.

use super::frames::SiteFrame;
use super::{Sites, is_start};
use crate::debug_info::BETWEEN;
use mpisee_profile::glob::Glob;
use mpisee_profile::{PathId, SiteId};

/// How a place was chosen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// It is the innermost frame, which calls MPI itself.
    Innermost,
    /// It is the first frame outside of wrappers, of which the innermost has this name.
    Outside(String),
    /// It is the innermost frame, of a wrapper; no path says who called that.
    InWrapper,
    /// It is the innermost frame, and the path has none outside of wrappers, of which the user
    /// named some.
    AllSkipped,
}

impl How {
    /// As CSV and JSON have it.
    pub fn name(&self) -> &'static str {
        match self {
            How::Innermost => "innermost",
            How::Outside(_) => "outside of wrappers",
            How::InWrapper => "in a wrapper",
            How::AllSkipped => "all callers skipped",
        }
    }
}

/// A place in the program that calls MPI, or a wrapper that does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SitePlace {
    /// The function, and those into which it is inlined.
    pub frames: Vec<SiteFrame>,
    pub how: How,
}

impl SitePlace {
    /// `step at solver.c:301`, with the functions into which that is inlined, and what lies between
    /// it and MPI.
    pub fn text(&self) -> String {
        self.chosen(self.frames_text())
    }

    /// The same without the functions into which it is inlined.
    pub fn short_text(&self) -> String {
        self.chosen(self.frames.first().map_or_else(String::new, SiteFrame::text))
    }

    fn chosen(&self, frames: String) -> String {
        match &self.how {
            How::Innermost => frames,
            How::Outside(wrapper) => format!("{frames} (by {wrapper})"),
            How::InWrapper => format!("{frames} (caller not known)"),
            How::AllSkipped => format!("{frames} (all callers skipped)"),
        }
    }

    /// The function, and those into which it is inlined.
    pub fn frames_text(&self) -> String {
        self.frames.iter().map(SiteFrame::text).collect::<Vec<_>>().join(BETWEEN)
    }

    /// Returns whether the function, its file, or file and line is called so, or those of a
    /// function into which it is inlined: which functions are inlined differs between builds.
    pub fn is_called(&self, glob: &Glob) -> bool {
        self.frames.iter().any(|frame| {
            let of_line = frame.line_text().is_some_and(|line| glob.matches(&line));
            of_line || glob.matches(&frame.function) || glob.matches(super::frames::file_name(&frame.file))
        })
    }

    /// Returns whether the line is known.
    pub fn has_line(&self) -> bool {
        self.frames.first().is_some_and(|frame| frame.line_text().is_some())
    }

    /// The same without lines and offsets, which differ between builds. Of frames whose function is
    /// not known there is the binary alone. That of the program, whose file name is `program`, may
    /// have another name in another build.
    pub fn functions(&self, program: &str) -> String {
        let binary = |frame: &SiteFrame| match frame.module == program {
            true => "(the program)".to_owned(),
            false => frame.module.clone(),
        };
        let name = |frame: &SiteFrame| match (frame.function.as_str(), super::frames::file_name(&frame.file))
        {
            ("", _) => binary(frame),
            (function, "") => format!("{function} in {}", binary(frame)),
            (function, file) => format!("{function} at {file}"),
        };
        self.frames.iter().map(name).collect::<Vec<_>>().join(BETWEEN)
    }

    /// `sync at halo.cpp:25`: the innermost function with its line; none if that is not known.
    pub fn innermost_line(&self) -> Option<String> {
        let frame = self.frames.first()?;
        frame.line_text().map(|_| frame.text())
    }

    /// The innermost function with its file, and the line; none if that is not known.
    pub fn innermost_function(&self) -> Option<(String, u32)> {
        let frame = self.frames.first()?;
        Some((format!("{} at {}", frame.function, super::frames::file_name(&frame.file)), frame.line?))
    }

    /// Returns whether all functions are known.
    pub fn has_functions(&self) -> bool {
        self.frames.iter().all(|frame| !frame.function.is_empty())
    }

    /// Lines, or offsets where they are not known: the order of places in a function.
    pub fn order(&self) -> Vec<u64> {
        self.frames.iter().map(|frame| frame.line.map_or(frame.offset, u64::from)).collect()
    }
}

impl Sites {
    /// The place of a site, as far as it is known without a path.
    pub fn place(&mut self, site: SiteId) -> SitePlace {
        self.first_outside(&[site])
            .unwrap_or_else(|| SitePlace { frames: self.frames(site).to_vec(), how: How::InWrapper })
    }

    /// The place of a path that leads out of wrappers, if its first site is in one; the path's own
    /// site follows from [`Sites::place`].
    pub fn outside_of_wrappers(&mut self, path: PathId) -> Option<SitePlace> {
        let sites = self.stack(path).to_vec();
        let (first, _) = sites.split_first()?;
        if self.first_outside(std::slice::from_ref(first)).is_some() {
            return None;
        }
        self.first_outside(&sites).or_else(|| {
            // A path that ends in a library says nothing of the caller.
            let names_some =
                sites.iter().any(|&site| self.frames(site).iter().any(|it| self.is_skipped(site, it)));
            names_some.then(|| SitePlace { frames: self.frames(*first).to_vec(), how: How::AllSkipped })
        })
    }

    /// The first frame that is not of a wrapper, and is of the program: not of what starts it.
    fn first_outside(&mut self, sites: &[SiteId]) -> Option<SitePlace> {
        let mut wrapper: Option<String> = None;
        for &site in sites {
            let frames = self.frames(site);
            let binary = self.rows.get(&site).map_or("", |row| row.module.as_str());
            for (place, frame) in frames.iter().enumerate() {
                match self.wrappers.name(frame, binary) {
                    Some(name) => drop(wrapper.get_or_insert_with(|| name.to_owned())),
                    None if is_start(&frame.function) => {}
                    None => {
                        let how = wrapper.map_or(How::Innermost, How::Outside);
                        return Some(SitePlace { frames: frames[place..].to_vec(), how });
                    }
                }
            }
        }
        None
    }

    /// Returns whether the user wants to look past a frame of a site.
    pub fn is_skipped(&self, site: SiteId, frame: &SiteFrame) -> bool {
        self.wrappers.is_named(frame, self.rows.get(&site).map_or("", |row| &row.module))
    }
}
