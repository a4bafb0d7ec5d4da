//! Pictures of the traffic of GPU kernels.

use super::{STENCIL, drawn, has, profile, source};

#[test]
fn pictures_have_kernels_and_messages_side_by_side() {
    let stencil = profile(STENCIL);
    stencil.run(&["gpu", "app.mpisee", "--image", "a.svg"]).prints("");
    let text = std::fs::read_to_string(stencil.beside().join("a.svg")).unwrap();
    for part in [
        "<title>0 to 1: 5120 bytes stored by kernels of 0, 0 bytes loaded by those of 1</title>",
        "<title>1 to 0: 5120 bytes stored by kernels of 1, 400 bytes loaded by those of 0</title>",
        "<title>(unknown) to 1: 0 bytes stored by kernels of (unknown), 65536 bytes loaded by those of 1</title>",
        "<title>0 to 1: 1000 bytes sent</title>",
        ">By GPU kernels: 74.4 KiB</text>",
        ">By MPI, point-to-point: 1000 B</text>",
        ">64.0 KiB</text>",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Rank 2 has no kernels: it is on neither side.
    assert!(!text.contains("1 to 2"), "{text}");
    let devices = ["gpu", "app.mpisee", "--image", "b.svg", "--by", "device", "--of", "accesses"];
    stencil.run(&devices).prints("");
    let text = std::fs::read_to_string(stencil.beside().join("b.svg")).unwrap();
    assert!(text.contains("<title>GPU-b to host: 3 accesses stored"), "{text}");
    assert!(!text.contains("By MPI"), "messages are no accesses\n{text}");

    stencil.run(&["gpu", "app.mpisee", "--image", "c.svg", "--graph"]).prints("");
    let text = std::fs::read_to_string(stencil.beside().join("c.svg")).unwrap();
    let edge = "<title>0 to 1: 1000 bytes sent</title></polygon>";
    assert!(text.contains(edge) && text.contains("<title>host</title></polygon>"), "{text}");

    stencil.run(&["gpu", "app.mpisee", "--image", "a.png"]).prints("");
    let file = std::fs::File::open(stencil.beside().join("a.png")).unwrap();
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.width, 1920);
    let darkest = pixels.chunks_exact(3).filter(|pixel| *pixel == [11, 55, 102]).count();
    assert!(darkest > 10_000, "a field of the largest");

    let graph = ["gpu", "app.mpisee", "--image", "a.svg", "--by", "line", "--graph"];
    stencil.run(&graph).fails_with(&["--graph draws pairs, --by rank or --by device"]);
    let none = ["gpu", "app.mpisee", "--image", "none.svg", "--kernel", "x"];
    stencil.run(&none).fails_with(&["no access matches the filters; the profile has kernels "]);
    assert!(!stencil.beside().join("none.svg").exists());
}

#[test]
fn lines_kernels_objects_and_kinds_are_drawn_as_bars() {
    let stencil = profile(STENCIL);
    let lines = drawn(&stencil, &["--by", "line", "--kernel", "h*"]);
    has(
        &lines,
        &[
            "<title>splatt: bytes that GPU kernels accessed, by line</title>",
            ">10.4 KiB in 2 lines</text>",
            "<title>stencil.cu:41, halo: 1280 accesses, 0 bytes loaded, 10240 stored, 0 by atomics</title>",
            ">stencil.cu:42</text>",
            ">96.2 %</text>",
            ">400 B</text>",
        ],
    );
    // The bar of the second, which loads, is as long beside that of the first, which stores.
    let wide = |colour: &str| -> f64 {
        let bar = lines.lines().find(|line| line.contains(colour) && line.contains("<title>")).unwrap();
        bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    assert!((wide("#8db8dd") / wide("#0b3766") - 400.0 / 10240.0).abs() < 1e-3, "{lines}");
    has(
        &drawn(&stencil, &["--by", "kernel", "--of", "accesses"]),
        &[">1384 accesses in 2 kernels</text>", ">99.7 %"],
    );
    let objects = drawn(&stencil, &["--by", "object", "--top", "1"]);
    has(
        &objects,
        &[
            ">3 more objects have 14.0 %; --top N draws N, and 256 at most.</text>",
            ">'app' is not there; its calls are shown as addresses; --source DIR says where to look</text>",
        ],
    );
    has(
        &drawn(&stencil, &["--by", "access"]),
        &[">load, bulk copies</text>", ">store, 8 bytes wide</text>", ">by atomics</text>"],
    );
    let device = drawn(&stencil, &["--by", "device", "--detail", "--device", "GPU-a"]);
    has(
        &device,
        &[
            ">GPU-a: 2 kinds of access</text>",
            ">GPU-a: 1 object</text>",
            ">GPU-a: 2 lines</text>",
            "MPI sent 1000 bytes there, and received 0</title>",
            "<title>ghost cells, memory of rank 1: 740 accesses, 400 bytes loaded, 5120 stored, 0 by atomics</title>",
        ],
    );
    assert!(!drawn(&stencil, &["--by", "kernel", "--detail"]).contains(">halo: 2 lines, halo"), "known");
}

#[test]
fn names_in_pictures_are_escaped_cut_and_whole_under_the_pointer() {
    let long = "n".repeat(400);
    let row = |line: u32, object: &str| {
        format!("0,GPU-a,0,host,pinned,norm,a.cu:{line},\"{object}\",load,4,{line},4,1,0.0\n")
    };
    let rows: String = (1..=300).map(|line| row(line, "<halo> & \"\"co\"\"")).collect();
    let profile = profile(&format!("{rows}{}", row(301, &long)));
    let text = drawn(&profile, &["--by", "object"]);
    has(
        &text,
        &[">&lt;halo&gt; &amp; \"co\"</text>", &format!("<title>{long}, memory of host: "), "n…</text>"],
    );
    assert!(!text.contains(&format!(">{long}<")), "{text}");
    // As many as are asked for, and no more than there is room for.
    let rows = |text: String| text.matches(">norm</text>").count();
    let more = |text: &str, number: u32| has(text, &[&format!(">{number} more lines have ")]);
    let some = drawn(&profile, &["--by", "line", "--of", "accesses"]);
    more(&some, 301 - 24);
    assert_eq!(rows(some), 24);
    let all = drawn(&profile, &["--by", "line", "--all"]);
    more(&all, 301 - 256);
    assert_eq!(rows(all), 256);
    assert_eq!(rows(drawn(&profile, &["--by", "line", "--top", "7"])), 7);
}

#[test]
fn the_source_is_drawn_with_a_bar_for_each_line() {
    let stencil = profile(STENCIL);
    std::fs::create_dir(stencil.beside().join("src")).unwrap();
    let wide = format!("\tif (a<b && {}) {{", "x".repeat(200));
    let text = source(43).replace("\tline 42;", &wide);
    std::fs::write(stencil.beside().join("src/stencil.cu"), text).unwrap();
    let text = drawn(&stencil, &["--annotate", "--ranks", "0", "--source", "src"]);
    has(
        &text,
        &[
            "<title>splatt: bytes that GPU kernels accessed, in the source</title>",
            "<title>stencil.cu: 740 accesses, 400 bytes loaded, 5120 stored, 0 by atomics</title>stencil.cu</text>",
            ">    line 39;</text>",
            "<title>line 41: 640 accesses, 0 bytes loaded, 5120 stored, 0 by atomics</title>    line 41;</text>",
            ">92.8 %</text>",
            &format!("<title>if (a&lt;b &amp;&amp; {}) {{; line 42: 100 accesses", "x".repeat(200)),
            "x…</text>",
            "was written after the run: its lines may not be those that ran.</text>",
        ],
    );
    let png = ["gpu", "app.mpisee", "--annotate", "--source", "src", "--image", "a.png"];
    stencil.run(&png).prints("");
    assert!(std::fs::read(stencil.beside().join("a.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(!text.contains("line 38;") && text.contains("xml:space=\"preserve\""), "{text}");
    let few = drawn(&stencil, &["--annotate", "--top", "1"]);
    has(&few, &[">3 more lines have 14.0 %; --top N draws N, and 200 at most.</text>"]);
}
