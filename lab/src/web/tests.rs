use super::feed::System;
use super::*;
use crate::live::acts::{Acts, Order};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use xtask::telemetry::sample::Sample;

/// A system that only remembers what it was asked for.
#[derive(Default)]
struct Asked(Mutex<Vec<Order>>);

impl Acts for Asked {
    fn offered(&self) -> Vec<&'static str> {
        vec!["kill"]
    }

    fn act(&self, act: &Order) -> Result<String> {
        self.0.lock().unwrap().push(act.clone());
        match act {
            Order::Kill { component } if component == "nobody" => anyhow::bail!("there is no component 'nobody'"),
            _ => Ok("it is done".into()),
        }
    }
}

fn page(acts: Option<Arc<dyn Acts>>) -> Web {
    let web = Web::open(bind("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap();
    let (scenario, graph, sample) = ("demo".into(), String::new(), Sample::default());
    web.feed.begin(System { scenario, graph, acts, sample });
    web
}

/// The answer to a request, with its head.
fn asked(web: &Web, head: &str, body: &str) -> String {
    let mut connection = TcpStream::connect(web.address).unwrap();
    let length = body.len();
    write!(connection, "{head}\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_change_needs_the_token_and_a_run_that_offers_it() {
    let kill = r#"{"act":"kill","component":"nvme-server"}"#;
    let act = |web: &Web, token: &str, body: &str| {
        asked(web, &format!("POST /act HTTP/1.1\r\nAuthorization: Bearer {token}"), body)
    };
    let without = page(None);
    assert!(
        act(&without, &without.token, kill).contains("409")
            && act(&without, &without.token, kill).contains("[control]")
    );
    let system = Arc::new(Asked::default());
    let web = page(Some(Arc::clone(&system) as Arc<dyn Acts>));
    for answer in [act(&web, "", kill), act(&web, &without.token, kill), asked(&web, "POST /act HTTP/1.1", kill)] {
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("open the address that the command printed"),
            "{answer}"
        );
    }
    assert!(act(&web, &web.token, "{").contains("this is no order"));
    assert!(system.0.lock().unwrap().is_empty());
    let done = act(&web, &web.token, kill);
    assert!(done.starts_with("HTTP/1.1 200") && done.ends_with("it is done\n"), "{done}");
    assert!(
        act(&web, &web.token, &kill.replace("nvme-server", "nobody")).ends_with("there is no component 'nobody'\n")
    );
    assert_eq!(system.0.lock().unwrap()[0], Order::Kill { component: "nvme-server".into() });
}

#[test]
fn every_answer_forbids_what_comes_from_elsewhere() {
    let web = page(None);
    for path in ["/", "/live.js", "/live.css", "/metrics"] {
        let answer = asked(&web, &format!("GET {path} HTTP/1.1"), "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(answer.contains("default-src 'none'") && answer.contains("nosniff"), "{path}: {answer}");
        assert!(!answer.contains(&web.token), "the token is for those who were given it");
    }
    assert!(asked(&web, "GET /../secret HTTP/1.1", "").starts_with("HTTP/1.1 404"));
}

#[test]
fn metrics_have_the_form_that_is_asked_for() {
    let web = page(None);
    let open = asked(&web, "GET /metrics HTTP/1.1", "");
    assert!(
        open.contains("application/openmetrics-text; version=1.0.0; charset=utf-8") && open.ends_with("# EOF\n"),
        "{open}"
    );
    let classic = asked(&web, "GET /metrics HTTP/1.1\r\nAccept: text/plain;version=0.0.4", "");
    assert!(classic.contains("text/plain; version=0.0.4") && !classic.contains("# EOF"), "{classic}");
    let starting = Web::open(bind("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap();
    assert!(asked(&starting, "GET /metrics HTTP/1.1", "").starts_with("HTTP/1.1 503"));
}

#[test]
fn readers_hear_of_the_end_and_the_page_ends() {
    let web = page(None);
    let address = web.address;
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut first = [0; 64];
    connection.read_exact(&mut first).unwrap();
    let since = Instant::now();
    web.finish();
    assert!(since.elapsed() < LAST_NEWS, "no reader is waited for");
    let mut rest = String::new();
    connection.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(r#""over":"the run is over""#), "{rest}");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_port_that_is_taken_is_one_sentence() {
    let taken = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = bind(taken.local_addr().unwrap()).unwrap_err().to_string();
    assert!(error.contains("is taken by another program: name another one, as in --listen 127.0.0.1:0"), "{error}");
    let elsewhere = bind("192.0.2.1:80".parse().unwrap()).unwrap_err().to_string();
    assert!(elsewhere.starts_with("this machine does not have the address 192.0.2.1"), "{elsewhere}");
}
