//! Compatibility with perftest: scripts that parse its output parse `braid-perf`'s, and its options
//! are known.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Output of `ib_write_bw` 6.06, from the format strings of Debian 12's version.
const IB_WRITE_BW: &str = include_str!("perftest/ib_write_bw.txt");
/// Output of `ib_write_lat` 6.06.
const IB_WRITE_LAT: &str = include_str!("perftest/ib_write_lat.txt");

fn braid_perf(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-perf"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

fn output(line: &str) -> Output {
    braid_perf(line).output().expect("braid-perf starts")
}

fn stdout(line: &str) -> String {
    let output = output(line);
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{line}`: {says}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Finds the rows as many scripts do, with awk, in the lines after the heading. All columns must be
/// numbers.
fn rows_after_heading(text: &str) -> Vec<Vec<f64>> {
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with("#bytes")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("---"));
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("`{word}` in\n{text}"));
    lines.map(|line| line.split_whitespace().map(number).collect()).collect()
}

/// Finds the row as other scripts do: `tail -n 2 | head -n 1`.
fn last_row(text: &str) -> Vec<f64> {
    let line = text.lines().rev().nth(1).expect("two lines");
    line.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// Returns the names in the heading, some of which contain spaces.
fn columns(text: &str) -> Vec<String> {
    let heading =
        text.lines().find(|line| line.trim_start().starts_with("#bytes")).expect("a heading");
    let heading = heading.replace("BW ", "BW_").replace("% ", "%_").replace("tps ", "tps_");
    heading.split_whitespace().map(|name| name.replace("[MB/sec]", "[MiB/sec]")).collect()
}

#[test]
fn bandwidth_has_perftests_columns() {
    let ours = stdout("write-bw --loopback -n 300 -s 65536");
    assert_eq!(columns(&ours), columns(IB_WRITE_BW));
    for text in [IB_WRITE_BW, &ours] {
        let rows = rows_after_heading(text);
        assert_eq!(rows, [last_row(text)], "{text}");
        let [bytes, iterations, peak, average, rate] = rows[0][..] else { panic!("{text}") };
        assert_eq!((bytes, iterations), (65536.0, 300.0));
        assert!(peak >= average && average > 0.0, "{text}");
        let from_rate = rate * 1e6 * bytes / f64::from(1 << 20);
        assert!((from_rate / average - 1.0).abs() < 0.02, "MiB/s and messages agree:\n{text}");
    }
}

#[test]
fn gigabits_are_what_was_asked_for() {
    let text = stdout("write-bw --loopback -n 300 -s 65536 --report_gbits -N");
    let row = last_row(&text);
    assert_eq!(columns(&text)[3], "BW_average[Gb/sec]");
    assert_eq!(row[2], 0.0, "nobody looked for a peak");
    let from_rate = row[4] * 1e6 * 65536.0 * 8e-9;
    assert!((from_rate / row[3] - 1.0).abs() < 0.02, "{text}");
}

#[test]
fn latency_has_perftests_columns() {
    let ours = stdout("write-lat --loopback -n 200 -s 2");
    assert_eq!(columns(&ours), columns(IB_WRITE_LAT));
    for text in [IB_WRITE_LAT, &ours] {
        let rows = rows_after_heading(text);
        assert_eq!(rows, [last_row(text)], "{text}");
        let [bytes, iterations, min, max, typical, average, _, p99, p999] = rows[0][..] else {
            panic!("{text}")
        };
        assert_eq!((bytes, iterations), (2.0, 200.0));
        let ordered = [min, typical, p99, p999, max];
        assert!(ordered.is_sorted() && min <= average && average <= max, "{text}");
    }
}

#[test]
fn a_latency_test_for_a_time_begins_with_perftests_columns() {
    let text = stdout("send-lat --loopback -D 0.2");
    assert_eq!(columns(&text)[..4], ["#bytes", "#iterations", "t_avg[usec]", "tps_average"]);
    let row = last_row(&text);
    // Half a round trip in one column, and whole ones per second in the other.
    assert!((row[2] * 2.0 * row[3] / 1e6 - 1.0).abs() < 0.05, "{text}");
}

#[test]
fn all_sizes_have_a_row_each() {
    let rows = rows_after_heading(&stdout("write-bw --loopback -a -n 5"));
    let sizes: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(sizes, (1..=23).map(|shift| f64::from(1 << shift)).collect::<Vec<_>>());
}

#[test]
fn sleeping_for_completions_measures_the_same_messages() {
    for progress in ["poll", "thread"] {
        let line = format!("send-lat --loopback -n 200 --verify -e --progress {progress}");
        let row = last_row(&stdout(&line));
        assert_eq!(row[..2], [8.0, 200.0], "{line}");
    }
    let refused = output("write-lat --loopback -e");
    let says = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{says}");
    assert!(says.contains("it is for send-lat, read-lat and atomic-lat"), "{says}");
}

#[test]
fn histograms_have_the_time_of_every_message() {
    for (option, is_sorted) in [("-H", true), ("-U", false)] {
        let text = stdout(&format!("write-lat --loopback -n 50 {option}"));
        let times = text.lines().skip_while(|line| *line != "#, usec").skip(1);
        let times: Vec<f64> =
            times.map_while(|line| line.split_once(", ")?.1.parse().ok()).collect();
        assert_eq!(times.len(), 50, "{text}");
        assert!(!is_sorted || times.is_sorted());
        let least = times.iter().copied().fold(f64::MAX, f64::min);
        assert!((least - last_row(&text)[2]).abs() < 0.02 * least.max(1.0), "{text}");
    }
}

#[test]
fn both_sides_show_what_they_do_and_the_same_row() {
    let mut server = braid_perf("write-bw -p 0 --bind 127.0.0.1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines =
        BufReader::new(server.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let address = lines.next().expect("a line");
    let port = address.rsplit_once(':').expect("an address").1;
    let client = stdout(&format!("write-bw -p {port} 127.0.0.1 -n 100 -q 3"));
    let shown: Vec<String> = lines.collect();
    assert!(server.wait().expect("it runs").success());
    let server = shown.join("\n");
    assert_eq!(last_row(&server), last_row(&client));
    for text in [&server, &client] {
        for words in [
            "RDMA_Write BW Test",
            "Number of qps   : 3",
            "Device          : UDP",
            "remote address: 127.0.0.1:",
        ] {
            assert!(text.contains(words), "`{words}` is not in\n{text}");
        }
    }
}

#[test]
fn intervals_are_shown_as_they_come() {
    let mut client = braid_perf("write-bw --loopback -D 0.7 --interval 200")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(client.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut rows = lines.skip_while(|line| !line.trim_start().starts_with("#bytes")).skip(1);
    let first = rows.next().expect("a row");
    assert!(first.trim_start().starts_with("65536"), "{first}");
    assert!(
        client.try_wait().expect("it runs").is_none(),
        "the first interval is shown before the end"
    );
    let rest: Vec<String> = rows.take_while(|line| !line.starts_with("---")).collect();
    assert!(rest.len() >= 2, "{rest:?}");
    assert!(client.wait().expect("it runs").success());
}

#[test]
fn json_on_standard_output_is_alone_there() {
    for line in [
        "write-bw --loopback -n 20 --json -",
        "paths 127.0.0.1 --paths 2 --json -",
        "info --json -",
    ] {
        let json: Value = serde_json::from_str(&stdout(line)).expect("JSON and nothing else");
        let run = &json["run"];
        assert_eq!(run["version"], env!("CARGO_PKG_VERSION"), "{line}");
        let words: Vec<&str> =
            run["arguments"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert_eq!(words.join(" "), line);
        assert!(run["units"]["_gbps"].is_string() && run["host"].is_string(), "{run}");
    }
    let json: Value =
        serde_json::from_str(&stdout("write-bw --loopback -n 20 --json -")).expect("JSON");
    for side in ["client", "server"] {
        let host = &json["hosts"][side];
        assert!(host["name"].is_string() && host["address"].is_string(), "{host}");
    }
}

#[test]
fn rejected_options_name_an_alternative() {
    for (line, wanted) in [
        ("write-bw host --out_json", "`--json FILE`"),
        ("write-bw host -S 3", "`-S, --sl`"),
        ("write-bw host --rate_limit=10", "`--cc rate:10G`"),
        ("write-bw host --run_infinitely", "`-D 86400 --interval 1000`"),
        ("write-bw host -c XRC", "possible values: uc, rc"),
        ("write-bw host -c UC", "it goes with `-d DEV`"),
        ("write-bw host -H", "latency tests"),
        ("write-lat host --report_gbits", "bandwidth tests"),
        ("write-bw host --lb nonsense", "round-robin"),
        ("write-bw host --destination-groups /nonexistent/groups", "cannot read the destination"),
        ("write-bw host --quantum 0", "1..=4096"),
        ("write-bw host --quantum 4097", "1..=4096"),
        ("write-bw host --cc nonsense", "dcqcn"),
        ("write-bw host --loss-recovery nonsense", "fifo-path"),
        ("write_bw", "write-bw, read-bw"),
    ] {
        let output = output(line);
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {says}");
        assert!(says.contains(wanted), "{line}: {says}");
    }
}

#[test]
fn perftests_habits_are_accepted() {
    let line =
        "write-bw --loopback -F -R -m 1024 -c RC --qp 2 --iters=20 --tx-depth=4 -N --report_gbits";
    assert_eq!(last_row(&stdout(line))[..2], [65536.0, 40.0]);
}

/// Every command that `--help` lists has a `--help` of its own.
#[test]
fn every_listed_command_exists() {
    let help = stdout("--help");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   "))
        })
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands.iter().filter(|command| **command != "help") {
        let help = stdout(&format!("{command} --help"));
        assert!(help.contains("Usage:"), "{command}: {help}");
        for word in ["not built", "not implemented"] {
            assert!(!help.contains(word), "{command}: {help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command}:\n{help}");
    }
}
