use super::*;
use std::path::PathBuf;

fn flavour(name: &str, family: Family, library: &str) -> Flavour {
    let file = Path::new(library).file_name().unwrap().to_str().unwrap();
    let (stem, version) = file.split_once(".so.").unwrap();
    Flavour {
        name: name.to_owned(),
        family,
        soname: format!("{stem}.so.{}", version.split('.').next().unwrap()),
        library: PathBuf::from(library),
        mpicc: PathBuf::new(),
        library_version: String::new(),
        profiler: PathBuf::new(),
    }
}

fn installed() -> Vec<Flavour> {
    vec![
        flavour("intelmpi-2021.19", Family::Mpich, "/nowhere/intel/libmpi.so.12.0.0"),
        flavour("mpich-4.0", Family::Mpich, "/nowhere/libmpich.so.12.2.2"),
        flavour("mpich-5.0", Family::Mpich, "/nowhere/m5/libmpi.so.12.5.2"),
        flavour("openmpi-4.1", Family::OpenMpi, "/nowhere/o4/libmpi.so.40.30.4"),
        flavour("openmpi-5.0", Family::OpenMpi, "/nowhere/o5/libmpi.so.40.40.8"),
        flavour("mpiabi-1.0", Family::Standard, "/nowhere/m5/libmpi_abi.so.1"),
    ]
}

fn linked_with(libraries: &[(&str, &str)]) -> ProgramKind {
    let libc = ("libc.so.6", "/nowhere/libc.so.6");
    let all = [&[libc], libraries].concat();
    let needed =
        |(soname, path): (&str, &str)| Needed { soname: soname.to_owned(), path: Some(PathBuf::from(path)) };
    ProgramKind::Dynamic(all.into_iter().map(needed).collect())
}

/// The choice, as a flavour's name or a reason.
fn chosen(installed: &[Flavour], kind: &ProgramKind, hint: Option<Hint>) -> Result<String, Reason> {
    let facts = Facts {
        installed,
        wanted: None,
        kind,
        privileged: false,
        launcher: false,
        calls_launcher: None,
        hint: hint.as_ref(),
        counts_nccl: false,
    };
    choose(&facts).unwrap().map(|flavour| flavour.name.clone())
}

fn hint(family: Family, product: Option<&'static str>, version: &[u32]) -> Option<Hint> {
    Some(Hint { family, product, version: version.to_vec(), variable: "PMI_RANK", folders: Vec::new() })
}

#[test]
fn the_very_library_that_the_program_loads_decides() {
    for (library, name) in [("o4/libmpi.so.40.30.4", "openmpi-4.1"), ("o5/libmpi.so.40.40.8", "openmpi-5.0")]
    {
        let program = linked_with(&[("libmpi.so.40", &format!("/nowhere/{library}"))]);
        assert_eq!(chosen(&installed(), &program, None), Ok(name.to_owned()));
    }
    for (library, name) in
        [("intel/libmpi.so.12.0.0", "intelmpi-2021.19"), ("m5/libmpi.so.12.5.2", "mpich-5.0")]
    {
        let program = linked_with(&[("libmpi.so.12", &format!("/nowhere/{library}"))]);
        assert_eq!(chosen(&installed(), &program, None), Ok(name.to_owned()));
    }
}

#[test]
fn the_standards_interface_has_a_flavour_whichever_mpi_offers_it() {
    for folder in ["m5", "intel"] {
        let program = linked_with(&[("libmpi_abi.so.1", &format!("/nowhere/{folder}/libmpi_abi.so.1"))]);
        let started = hint(Family::Mpich, None, &[]);
        assert_eq!(chosen(&installed(), &program, started), Ok("mpiabi-1.0".to_owned()));
    }
}

#[test]
fn another_build_of_the_library_gets_the_nearest_version() {
    for (version, name) in [
        ("40.30.6", "openmpi-4.1"),
        ("40.30.2", "openmpi-4.1"),
        ("40.40.3", "openmpi-5.0"),
        ("40.35.0", "openmpi-4.1"),
        ("40.20.9", "openmpi-4.1"),
    ] {
        let program = linked_with(&[("libmpi.so.40", &format!("/elsewhere/libmpi.so.{version}"))]);
        assert_eq!(chosen(&installed(), &program, None), Ok(name.to_owned()), "{version}");
    }
}

#[test]
fn a_link_to_the_library_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (file, link) = (folder.join("libmpi.so.40.1.0"), folder.join("libmpi.so.40"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut installed = installed();
    installed.push(flavour("openmpi-9.9", Family::OpenMpi, file.to_str().unwrap()));
    let program = linked_with(&[("libmpi.so.40", link.to_str().unwrap())]);
    assert_eq!(chosen(&installed, &program, None), Ok("openmpi-9.9".to_owned()));
}

#[test]
fn linked_mpi_decides_before_the_environment() {
    let program = linked_with(&[("libmpich.so.12", "/nowhere/libmpich.so.12")]);
    let other = hint(Family::OpenMpi, Some("openmpi"), &[4]);
    assert_eq!(chosen(&installed(), &program, other), Ok("mpich-4.0".to_owned()));
}

#[test]
fn an_mpi_without_a_flavour_is_named_and_no_other_taken() {
    let only_mpich = &installed()[1..2];
    let program = linked_with(&[
        ("libmpi_mpifh.so.40", "/nowhere/libmpi_mpifh.so.40"),
        ("libmpi.so.40", "/nowhere/libmpi.so.40"),
    ]);
    let reason = Reason::NoFlavourFor { soname: "libmpi.so.40".to_owned() };
    assert_eq!(chosen(only_mpich, &program, hint(Family::Mpich, None, &[])), Err(reason));
    let spectrum = linked_with(&[("libmpi_ibm.so.3", "/nowhere/libmpi_ibm.so.3")]);
    let reason = Reason::NoFlavourFor { soname: "libmpi_ibm.so.3".to_owned() };
    assert_eq!(chosen(&installed(), &spectrum, None), Err(reason));
}

/// A folder with libraries that export functions.
struct Libraries(tempfile::TempDir);

impl Libraries {
    fn new() -> Self {
        Libraries(tempfile::tempdir().unwrap())
    }

    fn library(&self, file: &str, functions: &[&str]) -> PathBuf {
        let (source, library) = (self.0.path().join("source.c"), self.0.path().join(file));
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        let text: String = functions.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
        std::fs::write(&source, text).unwrap();
        let mut cc = std::process::Command::new("cc");
        let built = cc.args(["-shared", "-fPIC", "-nostdlib", "-o"]).args([&library, &source]).status();
        assert!(built.unwrap().success());
        library.canonicalize().unwrap()
    }

    /// MPICH 4.0 and 5.0 as on another machine.
    fn flavours(&self) -> Vec<Flavour> {
        let of = |name: &str, functions: &[&str]| Flavour {
            profiler: self.library(&format!("{name}.so"), functions),
            ..flavour(name, Family::Mpich, "libmpi.so.12")
        };
        vec![
            of("mpich-5.0", &["MPI_Send", "MPI_Send_c", "MPI_Buffer_flush", "MPIX_Stream_send", "own"]),
            of("mpich-4.0", &["MPI_Send", "MPI_Send_c"]),
        ]
    }
}

/// The choice for a program that is linked with a library, and the note on it.
fn chosen_with_note(installed: &[Flavour], library: &Path) -> (String, Option<String>) {
    let soname = library.file_name().unwrap().to_str().unwrap();
    let kind = linked_with(&[(soname, library.to_str().unwrap())]);
    let facts = Facts {
        installed,
        wanted: None,
        kind: &kind,
        privileged: false,
        launcher: false,
        calls_launcher: None,
        hint: None,
        counts_nccl: false,
    };
    let flavour = choose(&facts).unwrap().unwrap();
    (flavour.name.clone(), note(&facts, flavour))
}

#[test]
fn the_flavour_whose_functions_the_library_has_is_taken_whatever_the_names() {
    let libraries = Libraries::new();
    let installed = libraries.flavours();
    let older = libraries.library("libmpich.so.12", &["MPI_Send", "MPI_Send_c", "MPI_T_init_thread"]);
    assert_eq!(chosen_with_note(&installed, &older), ("mpich-4.0".to_owned(), None));
    let newer = ["MPI_Send", "MPI_Send_c", "MPI_Buffer_flush", "MPI_Of_version_6"];
    let newer = libraries.library("libmpi_gnu_123.so.12", &newer);
    assert_eq!(chosen_with_note(&installed, &newer), ("mpich-5.0".to_owned(), None));
}

#[test]
fn a_library_between_two_flavours_gets_the_older_one_and_all_others_a_note() {
    let libraries = Libraries::new();
    let installed = libraries.flavours();
    let oldest = libraries.library("old/libmpi.so.12", &["MPI_Send"]);
    let (name, note) = chosen_with_note(&installed, &oldest);
    let expected = "libmpi.so.12 is another version than mpich-4.0, the nearest flavour. mpich-4.0 has 1 functions that this MPI lacks";
    assert_eq!(name, "mpich-4.0");
    assert!(note.as_deref().unwrap().ends_with(expected), "{note:?}");
    let between = libraries.library("mid/libmpi.so.12", &["MPI_Send", "MPI_Buffer_flush", "MPI_Send_c"]);
    assert_eq!(chosen_with_note(&installed, &between).0, "mpich-5.0");
    let only_older = &installed[1..];
    assert_eq!(
        chosen_with_note(only_older, &between),
        ("mpich-4.0".to_owned(), None),
        "no flavour counts more"
    );
}

#[test]
fn an_interpreter_gets_the_flavour_for_the_library_beside_the_launcher() {
    let libraries = Libraries::new();
    let installed = libraries.flavours();
    libraries.library("new/lib/libmpi.so.12", &["MPI_Send", "MPI_Send_c", "MPI_Buffer_flush"]);
    libraries.library("old/lib64/libmpich.so.12", &["MPI_Send", "MPI_Send_c"]);
    let by = |folder: &str| {
        let folders = vec![libraries.0.path().join(folder).join("bin")];
        let hint = hint(Family::Mpich, None, &[]).map(|hint| Hint { folders, ..hint });
        chosen(&installed, &ProgramKind::Script, hint).unwrap()
    };
    assert_eq!(["new", "old", "none"].map(by), ["mpich-5.0", "mpich-4.0", "mpich-4.0"]);
}

#[test]
fn an_interpreter_gets_the_flavour_of_the_launcher() {
    for kind in [ProgramKind::Script, linked_with(&[])] {
        let by = |hint| chosen(&installed(), &kind, hint).unwrap();
        assert_eq!(by(hint(Family::OpenMpi, Some("openmpi"), &[4])), "openmpi-4.1");
        assert_eq!(by(hint(Family::OpenMpi, Some("openmpi"), &[5, 0, 11])), "openmpi-5.0");
        assert_eq!(by(hint(Family::OpenMpi, Some("openmpi"), &[5, 1])), "openmpi-5.0");
        assert_eq!(by(hint(Family::OpenMpi, Some("openmpi"), &[])), "openmpi-4.1");
        assert_eq!(by(hint(Family::Mpich, None, &[])), "mpich-4.0");
        assert_eq!(by(hint(Family::Mpich, Some("intelmpi"), &[])), "intelmpi-2021.19");
    }
}

#[test]
fn the_flavour_of_the_mpi_that_the_launcher_lies_beside_comes_before_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let mut installed = installed();
    let mpich_5 = installed.iter_mut().find(|it| it.name == "mpich-5.0").unwrap();
    mpich_5.mpicc = folder.join("mpicc.mpich");
    let by = |folders: &[PathBuf]| {
        let hint = hint(Family::Mpich, None, &[]).map(|hint| Hint { folders: folders.to_vec(), ..hint });
        chosen(&installed, &ProgramKind::Script, hint).unwrap()
    };
    assert_eq!(by(&[PathBuf::from("/nowhere"), folder]), "mpich-5.0");
    assert_eq!(by(&[PathBuf::from("/nowhere")]), "mpich-4.0");
}

#[test]
fn a_launcher_without_a_flavour_is_named_even_if_there_is_one_other() {
    let reason = Reason::NoFlavourOf { variable: "PMI_RANK", family: Family::OpenMpi };
    let result =
        chosen(&installed()[1..2], &ProgramKind::Script, hint(Family::OpenMpi, Some("openmpi"), &[4]));
    assert_eq!(result, Err(reason));
}

#[test]
fn without_a_hint_the_only_flavour_is_taken_and_several_are_a_question() {
    assert_eq!(chosen(&installed()[1..2], &ProgramKind::Script, None), Ok("mpich-4.0".to_owned()));
    assert_eq!(
        chosen(&installed(), &ProgramKind::Script, None),
        Err(Reason::Undecided { why: "is a script".to_owned() })
    );
    assert_eq!(
        chosen(&installed(), &ProgramKind::Unreadable, None),
        Err(Reason::Undecided { why: "cannot be read".to_owned() })
    );
    assert_eq!(
        chosen(&installed(), &linked_with(&[]), None),
        Err(Reason::Undecided { why: "is not linked with MPI".to_owned() })
    );
}

#[test]
fn the_users_choice_overrides_all_but_the_impossible() {
    let installed = installed();
    let program = linked_with(&[("libmpi.so.40", "/nowhere/o4/libmpi.so.40.30.4")]);
    let facts = |kind, wanted, privileged| {
        let facts = Facts {
            installed: &installed,
            wanted: Some(wanted),
            kind,
            privileged,
            launcher: false,
            calls_launcher: None,
            hint: None,
            counts_nccl: false,
        };
        choose(&facts).map(|choice| choice.map(|flavour| flavour.name.clone()))
    };
    assert_eq!(facts(&program, "mpich-4.0", false).unwrap(), Ok("mpich-4.0".to_owned()));
    assert_eq!(facts(&program, "mpich-4.0", true).unwrap(), Err(Reason::Privileged));
    assert_eq!(facts(&ProgramKind::Static, "mpich-4.0", false).unwrap(), Err(Reason::Static));
    assert_eq!(facts(&ProgramKind::Foreign, "mpich-4.0", false).unwrap(), Err(Reason::Foreign));
    assert_eq!(facts(&ProgramKind::Musl, "mpich-4.0", false).unwrap(), Err(Reason::Musl));
    assert!(matches!(facts(&ProgramKind::Static, "mpich", false), Err(Failure::UnknownFlavour { .. })));
}

#[test]
fn a_launcher_is_profiled_only_on_demand() {
    let installed = installed();
    let facts = |wanted| Facts {
        installed: &installed[1..2],
        wanted,
        kind: &ProgramKind::Script,
        privileged: false,
        launcher: true,
        calls_launcher: None,
        hint: None,
        counts_nccl: true,
    };
    assert_eq!(choose(&facts(None)).unwrap(), Err(Reason::Launcher));
    assert_eq!(choose(&facts(Some("mpich-4.0"))).unwrap(), Ok(&installed[1]));
}

#[test]
fn a_program_of_nccl_needs_no_mpi() {
    let (installed, of_nccl) = (installed(), linked_with(&[("libnccl.so.2", "/nowhere/libnccl.so.2")]));
    let facts = |kind, calls_launcher| Facts {
        installed: &installed,
        wanted: None,
        kind,
        privileged: false,
        launcher: false,
        calls_launcher,
        hint: None,
        counts_nccl: true,
    };
    assert_eq!(choose(&facts(&of_nccl, None)).unwrap(), Ok(&installed[0]));
    assert_eq!(choose(&facts(&ProgramKind::Script, None)).unwrap(), Ok(&installed[0]));
    let calls = choose(&facts(&ProgramKind::Script, Some("mpirun"))).unwrap();
    assert_eq!(calls, Err(Reason::CallsLauncher { launcher: "mpirun".to_owned() }));
    let mpi = linked_with(&[("libmpi.so.40", "/nowhere/o5/libmpi.so.40.40.8")]);
    assert_eq!(choose(&facts(&mpi, None)).unwrap(), Ok(&installed[4]));
}

#[test]
fn nothing_installed_is_said() {
    assert_eq!(chosen(&[], &linked_with(&[]), None), Err(Reason::NoneInstalled));
}
