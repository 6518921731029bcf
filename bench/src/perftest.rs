//! perftest's options that Braid does not have: accepted if they change nothing, otherwise rejected
//! with an alternative.
//!
//! Options with the same meaning in both programs (`-s`, `-n`, `-D`, `--report_gbits`, ..) are in
//! [`crate::cli`].

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// An option of perftest 6.
struct Foreign {
    short: Option<char>,
    long: &'static str,
    takes_value: bool,
    answer: Verdict,
}

enum Verdict {
    /// The option changes nothing.
    Accepted,
    /// The option is rejected with this alternative.
    Refused(&'static str),
}

use Verdict::{Accepted, Refused};

const fn flag(short: char, long: &'static str, answer: Verdict) -> Foreign {
    Foreign { short: Some(short), long, takes_value: false, answer }
}

const fn value(short: char, long: &'static str, answer: Verdict) -> Foreign {
    Foreign { short: Some(short), long, takes_value: true, answer }
}

const fn long_flag(long: &'static str, answer: Verdict) -> Foreign {
    Foreign { short: None, long, takes_value: false, answer }
}

const fn long_value(long: &'static str, answer: Verdict) -> Foreign {
    Foreign { short: None, long, takes_value: true, answer }
}

const BY_ITSELF: &str = "leave it out: what is posted together leaves together";
const JSON: &str = "use `--json FILE`, or `--json -` for standard output; the keys are Braid's own";
const COUNTERS: &str = "use `--json FILE`: it has the counters and the CPU seconds of both sides";
const RATE: &str = "use `--cc rate:10G`: a rate limit is a congestion control here";
const CLASS: &str =
    "leave it out: tests have traffic class 0; programs have `QueuePair::set_traffic_class`";
const HOST_MEMORY: &str = "leave it out: tests use ordinary memory of their own";
const PAYLOAD: &str =
    "leave it out: nothing depends on it, and `--verify` has a pattern of its own";
const IMMEDIATE: &str =
    "use send-bw or send-lat: there, too, the receiver has a completion for each";
const POLLS: &str = "use `--progress thread`: the engine then sleeps while nothing comes";
const IPV6: &str = "give the server's IPv6 address as HOST";
const NO_MULTICAST: &str = "leave it out: a queue pair has one peer, and `alltoall` is for many";
const NO_KEYS: &str = "leave it out: Braid does not encrypt with the device";
const ADDRESSED_BY_IP: &str = "leave it out: the server is addressed by its IP address";

/// docs/perftest.md explains why each accepted option changes nothing.
const OPTIONS: &[Foreign] = &[
    flag('F', "CPU-freq", Accepted),
    flag('R', "rdma_cm", Accepted),
    flag('z', "com_rdma_cm", Accepted),
    // The spelling of perftest's help. The program accepts the option above.
    long_flag("comm_rdma_cm", Accepted),
    long_flag("perform_warm_up", Accepted),
    long_flag("use_old_post_send", Accepted),
    flag('C', "report-cycles", Refused("leave it out: times are in microseconds")),
    value('X', "vector", Refused(POLLS)),
    value('f', "margin", Refused("leave it out: the whole time of -D is measured")),
    value('I', "inline_size", Refused("leave it out: small messages need no special memory")),
    long_value("inline_recv", Refused("leave it out: small messages need no special memory")),
    value('l', "post_list", Refused(BY_ITSELF)),
    long_value("recv_post_list", Refused(BY_ITSELF)),
    value('L', "hop_limit", Refused("leave it out: the system's default holds")),
    value('M', "MGID", Refused(NO_MULTICAST)),
    flag('g', "mcg", Refused(NO_MULTICAST)),
    value('o', "outs", Refused("use `-t COUNT`: so many READs are posted at a time")),
    flag('O', "dualport", Refused("use `--rails A,B`: the local addresses of both ports")),
    value('Q', "cq-mod", Refused("leave it out: every message completes")),
    value('r', "rx-depth", Refused("use `-t COUNT`: four times as many receives are posted")),
    value('S', "sl", Refused(CLASS)),
    value('T', "tos", Refused(CLASS)),
    long_value("tclass", Refused(CLASS)),
    long_value("flow_label", Refused("use `--paths COUNT`: each path is a UDP source port")),
    value('u', "qp-timeout", Refused("leave it out: time-outs follow the measured round trip")),
    long_value("retry_count", Refused("leave it out: it gives up after 3 s without progress")),
    value('w', "limit_bw", Refused("use `--json FILE` and compare `goodput_gbps`")),
    value('y', "limit_msgrate", Refused("use `--json FILE` and compare `rate_mmsgs`")),
    value('W', "report-counters", Refused(COUNTERS)),
    long_flag("cpu_util", Refused(COUNTERS)),
    long_flag("out_json", Refused(JSON)),
    long_value("out_json_file", Refused(JSON)),
    long_value("output", Refused(JSON)),
    long_flag("run_infinitely", Refused("use `-D 86400 --interval 1000`: a line every second")),
    long_flag("report-both", Refused("leave it out: -b counts both directions together")),
    long_flag("report-per-port", Refused("leave it out: with `--rails` each rail is reported")),
    long_flag("reversed", Refused("start the server on the other machine, or use read-bw")),
    long_value("latency_gap", Refused("leave it out: a message follows the answer at once")),
    long_value("rate_limit", Refused(RATE)),
    long_value("rate_units", Refused(RATE)),
    long_value("rate_limit_type", Refused(RATE)),
    long_value("burst_size", Refused(RATE)),
    long_value("typical_pkt_size", Refused(RATE)),
    long_flag("ipv6", Refused(IPV6)),
    long_flag("ipv6-addr", Refused(IPV6)),
    long_value("dlid", Refused(ADDRESSED_BY_IP)),
    long_value("pkey_index", Refused(ADDRESSED_BY_IP)),
    long_value("force-link", Refused(ADDRESSED_BY_IP)),
    long_flag("dont_xchg_versions", Refused("leave it out: both sides agree when they connect")),
    long_flag("use-srq", Refused("leave it out: each queue pair has receives of its own")),
    long_flag("mr_per_qp", Refused(HOST_MEMORY)),
    long_flag("odp", Refused(HOST_MEMORY)),
    long_flag("use_hugepages", Refused(HOST_MEMORY)),
    long_value("mmap", Refused(HOST_MEMORY)),
    long_value("mmap-offset", Refused(HOST_MEMORY)),
    long_value("use_cuda", Refused("use `--memory cuda:N`, on each side")),
    long_flag("use_cuda_dmabuf", Refused("use `--memory cuda:N`: memory of GPUs is copied")),
    long_value("use_rocm", Refused(HOST_MEMORY)),
    long_flag("use-null-mr", Refused(HOST_MEMORY)),
    long_value("payload_file_path", Refused(PAYLOAD)),
    long_flag("write_with_imm", Refused(IMMEDIATE)),
    long_flag("no_lock", Refused("leave it out: there is no way without locks")),
    long_flag("disable_pcie_relaxed", Refused(HOST_MEMORY)),
    long_value("wait_destroy", Refused("leave it out: everything is released at the end")),
    long_value("log_dci_streams", Refused("use `-c UC` or `-c RC`")),
    long_value("log_active_dci_streams", Refused("use `-c UC` or `-c RC`")),
    long_flag("aes_xts", Refused(NO_KEYS)),
    long_flag("encrypt_on_tx", Refused(NO_KEYS)),
    long_flag("sig_before", Refused(NO_KEYS)),
    long_value("aes_block_size", Refused(NO_KEYS)),
    long_value("data_enc_keys_number", Refused(NO_KEYS)),
    long_value("kek_path", Refused(NO_KEYS)),
    long_value("credentials_path", Refused(NO_KEYS)),
    long_value("data_enc_key_app_path", Refused(NO_KEYS)),
];

/// perftest's options on the command line of every test, hidden from `--help`. Parsing fails if a
/// rejected one is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerftestOptions;

impl Foreign {
    fn arg(&self) -> Arg {
        let action = if self.takes_value { ArgAction::Append } else { ArgAction::SetTrue };
        let arg = Arg::new(self.long).long(self.long).hide(true).action(action);
        // A value may look like an option, such as -1.
        let arg = arg.allow_hyphen_values(self.takes_value);
        if let Some(short) = self.short { arg.short(short) } else { arg }
    }

    /// Returns the names on the command line.
    fn name(&self) -> String {
        let short = self.short.map(|short| format!("-{short}, ")).unwrap_or_default();
        format!("{short}--{}", self.long)
    }

    fn is_given(&self, matches: &ArgMatches) -> bool {
        matches.value_source(self.long) == Some(ValueSource::CommandLine)
    }
}

impl Args for PerftestOptions {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().map(Foreign::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PerftestOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let refusal = OPTIONS.iter().filter(|option| option.is_given(matches)).find_map(|option| {
            let Refused(instead) = option.answer else { return None };
            Some(format!("perftest's `{}` is no option here: {instead}", option.name()))
        });
        match refusal {
            Some(message) => Err(clap::Error::raw(ErrorKind::UnknownArgument, message)),
            None => Ok(PerftestOptions),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn parse(words: &[&str]) -> Result<Cli, String> {
        Cli::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn every_option_is_accepted_or_refused_by_its_names() {
        for option in OPTIONS {
            for name in [Some(format!("--{}", option.long)), option.short.map(|s| format!("-{s}"))]
            {
                let Some(name) = name else { continue };
                let mut words = vec!["braid-perf", "write-bw", "host", &name];
                words.extend(option.takes_value.then_some("1"));
                match (&option.answer, parse(&words)) {
                    (Accepted, Ok(_)) => {}
                    (Refused(instead), Err(says)) => {
                        assert!(says.contains(&option.name()) && says.contains(instead), "{says}");
                    }
                    (_, other) => panic!("{name}: {other:?}"),
                }
            }
        }
    }

    /// All options of `ib_write_bw --help`, `ib_read_lat --help` and the other programs of version
    /// 6.06, in short form.
    #[test]
    fn no_letter_of_perftest_is_unknown() {
        for letter in "abcCdDeFfgHhiIlLMmnNoOpqQrRsStTuUVwWxXyzA".chars() {
            let name = format!("-{letter}");
            for words in [vec![name.as_str()], vec![name.as_str(), "1"]] {
                let line = [vec!["braid-perf", "read-lat", "host"], words].concat();
                let says = parse(&line).err().unwrap_or_default();
                assert!(!says.contains(&format!("unexpected argument '{name}'")), "{says}");
            }
        }
    }

    #[test]
    fn the_page_about_perftest_has_every_option() {
        let page = include_str!("../../docs/perftest.md");
        for option in OPTIONS {
            let answer = match option.answer {
                Accepted => "accepted: ",
                Refused(instead) => instead,
            };
            let mut rows = page.lines().filter(|line| line.starts_with("| `-"));
            let row = rows.find(|line| line.contains(&format!("`--{}`", option.long)));
            let row = row.unwrap_or_else(|| panic!("--{} is not in docs/perftest.md", option.long));
            assert!(row.contains(answer), "--{}: {answer}", option.long);
        }
    }
}
