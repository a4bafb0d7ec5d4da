//! Profiles: listed, opened, compared; and what is refused.

use super::{Growing, Server};
use mpisee_tests::{Mpi, Place, case, dist};
use std::process::Command;

/// A folder with profiles of the same program: `growing.mpisee` and `growing-2.mpisee`.
fn with_two_profiles(mpi: &Mpi) -> Place {
    let mut place = Place::new();
    for _ in 0..2 {
        let mut growing = Growing::start(mpi, place, 2);
        growing.stand_still();
        growing.end();
        place = growing.place;
        for file in ["enough", "go", "arrived.0", "arrived.1"] {
            std::fs::remove_file(place.path(file)).expect("it is there");
        }
    }
    place
}

#[case]
fn profiles_are_listed_opened_and_compared(mpi: &Mpi) {
    let place = with_two_profiles(mpi);
    std::fs::create_dir_all(place.path("results/broken.mpisee")).expect("the folder is there");
    std::fs::write(place.path("results/broken.mpisee/run.json"), "{").expect("the folder is there");
    let server = Server::start(&place, &[]);
    let list = server.json("profiles");
    let of = |name: &str| {
        let profiles = list["profiles"].as_array().expect("a list");
        assert_eq!(profiles.len(), 3, "{list}");
        profiles
            .iter()
            .find(|profile| profile["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {list}"))
            .clone()
    };
    for name in ["growing.mpisee", "growing-2.mpisee"] {
        let run = &of(name)["run"];
        assert_eq!(
            (&run["program"], &run["ranks"], &run["nodes"]),
            (&"growing".into(), &2.into(), &1.into())
        );
        assert_eq!(run["complete"], true);
        assert!(run["wall_s"].as_f64().is_some_and(|wall_s| wall_s > 0.0), "{run}");
        assert!(run["mpi_share"].as_f64().is_some_and(|share| (0.0..1.0).contains(&share)), "{run}");
        assert!(run["start"].as_str().is_some_and(|start| start.ends_with('Z')), "{run}");
    }
    let broken = of("results/broken.mpisee");
    assert!(
        broken["run"].is_null() && broken["why"].as_str().is_some_and(|why| why.contains("run.json")),
        "{broken}"
    );

    // The page is the one that the command writes.
    let whole =
        place.folder().canonicalize().expect("it is there").join("growing.mpisee").display().to_string();
    place.through(&["report", &whole, "-o", "one.html"]);
    let page = server.get("report?of=growing.mpisee");
    assert_eq!(
        (page.status, page.body.len()),
        (200, std::fs::metadata(place.path("one.html")).expect("it is there").len() as usize)
    );
    assert!(
        page.body.starts_with("<!doctype html>") && page.body.contains("<title>growing · mpisee</title>")
    );
    assert!(page.head.contains("content-security-policy: sandbox allow-scripts"), "{}", page.head);
    let again = server.get("report?of=growing.mpisee");
    assert_eq!(again.body, page.body, "it is kept");
    let both = server.get("compare?before=growing.mpisee&after=growing-2.mpisee");
    assert!(both.status == 200 && both.body.contains("· mpisee</title>"), "{}", both.head);
    assert_ne!(both.body, page.body);
    assert_eq!(server.get("report?of=results/broken.mpisee").status, 422);
}

#[case]
fn nothing_is_answered_without_the_token() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let base = server.base.clone();
    let token = base.trim_matches('/');
    assert!(token.len() == 32 && token.chars().all(|letter| letter.is_ascii_hexdigit()), "{token}");
    for path in ["", "jobs", "profiles", "history", "bundle.js", "bundle.css", "job?key=x"] {
        assert_eq!(server.get(path).status, 200, "{path}");
        let other = token.replace(|letter: char| letter.is_ascii_digit(), "a");
        for wrong in [
            String::new(),
            "/".into(),
            format!("/{other}/"),
            format!("/{}/", &token[1..]),
            format!("/{token}0/"),
            format!("/x{base}"),
        ] {
            let answer = server.asked(&format!("/{}", format!("{wrong}{path}").trim_start_matches('/')));
            assert_eq!(answer.status, 403, "{wrong}{path}");
            assert!(!answer.body.contains(token) && !answer.body.contains("profiles"), "{}", answer.body);
        }
    }
    for line in ["CONNECT a:1 HTTP/1.1", "OPTIONS * HTTP/1.1"] {
        let answer = server.sent(format!("{line}\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
        assert_eq!(answer.status, 403, "{line}");
    }
    let elsewhere = server.asked(&format!("/{token}"));
    assert!(
        elsewhere.status == 308 && elsewhere.head.contains(&format!("location: {base}")),
        "{}",
        elsewhere.head
    );
    assert!(elsewhere.head.contains("referrer-policy: no-referrer"));
    let agent = |authorization: &str| {
        server
            .sent(
                format!("POST /agent HTTP/1.1\r\nHost: x\r\n{authorization}Content-Length: 0\r\n\r\n")
                    .as_bytes(),
            )
            .status
    };
    assert_eq!(agent(""), 403);
    assert_eq!(agent("Authorization: Bearer 0123456789abcdef\r\n"), 403);
    assert_eq!(agent(&format!("Authorization: Bearer {token}\r\nConnection: close\r\n")), 200);
}

#[case]
fn nothing_outside_of_the_folder_is_served() {
    let place = Place::new();
    let outside = Place::new();
    let secret = "a line that nobody may see";
    for (at, name) in [(&outside, "secret.mpisee"), (&place, "mine.mpisee")] {
        std::fs::create_dir(at.path(name)).expect("the folder is there");
        std::fs::write(at.path(name).join("run.json"), secret).expect("the folder is there");
        std::fs::write(at.path("file"), secret).expect("the folder is there");
    }
    let link = |from: &str, to: std::path::PathBuf| {
        std::os::unix::fs::symlink(to, place.path(from)).expect("the folder is there")
    };
    link("link.mpisee", outside.path("secret.mpisee"));
    std::fs::create_dir(place.path("half.mpisee")).expect("the folder is there");
    link("half.mpisee/run.json", outside.path("file"));
    link("half.mpisee/ranks.csv", outside.path("file"));
    let server = Server::start(&place, &[]);
    let list = server.json("profiles");
    let names: Vec<&str> =
        list["profiles"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&"mine.mpisee") && !names.contains(&"link.mpisee"), "{names:?}");
    let half = list["profiles"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|it| it["name"] == "half.mpisee")
        .expect("it is listed");
    assert!(half["why"].as_str().is_some_and(|why| why.contains("leads out of the folder")), "{half}");

    let folder = outside.folder().display().to_string();
    let name = outside.folder().file_name().expect("it has one").to_string_lossy().into_owned();
    let above = format!("../{name}/secret.mpisee");
    for of in [
        &*format!("{folder}/secret.mpisee"),
        &above,
        &above.replace('/', "%2f"),
        "link.mpisee",
        "half.mpisee",
        "mine.mpisee/../../x",
        "",
        ".",
        "%00",
        "/",
    ] {
        for path in [format!("report?of={of}"), format!("compare?before={of}&after=mine.mpisee")] {
            let answer = server.get(&path);
            assert_eq!(answer.status, 422, "{path}");
            assert!(!answer.body.contains(secret), "{path}: {}", answer.body);
        }
    }
    for path in [
        "file",
        "mine.mpisee/run.json",
        "../file",
        "%2e%2e/file",
        "..%2ffile",
        "profiles/../file",
        "//etc/passwd",
        "bundle.js/../file",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.body.contains(secret), "{path}");
    }
}

#[case]
fn what_cannot_be_served_is_one_sentence() {
    let place = Place::new();
    let said = |arguments: &[&str], token: Option<&str>| {
        let mut command = Server::command(&place.path("nothing"), &place.segments(), arguments);
        token.map(|token| command.env("MPISEE_TOKEN", token));
        let output = command.stderr(std::process::Stdio::piped()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&[], None).starts_with("mpisee-serve: cannot find '"));
    assert!(said(&[], Some("short")).starts_with("mpisee-serve: MPISEE_TOKEN is no token: "));
    // Without the program that serves.
    let alone = place.path("mpisee-through");
    std::fs::copy(dist().join("bin/mpisee-through"), &alone).expect("the folder is there");
    let output = Command::new(&alone).arg("serve").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2)
            && said.contains("'cargo xtask dist' without --without-serve builds it"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
}
