// SPDX-License-Identifier: Apache-2.0
//! Serves one file by HTTP, or fetches it, with hyper and tokio.
//! usage: files serve PORT FILE | files get URL

use hyper::body::HttpBody;
use hyper::service::{make_service_fn, service_fn};
use hyper::{Body, Client, Response, Server, Uri};
use std::convert::Infallible;
use std::io::Write;
use std::net::Ipv6Addr;

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn serve(port: u16, path: &str) -> Result<(), Failure> {
    let content: &'static [u8] = Box::leak(std::fs::read(path)?.into_boxed_slice());
    let service = make_service_fn(move |_| async move {
        Ok::<_, Infallible>(service_fn(move |_| async move { Ok::<_, Infallible>(Response::new(Body::from(content))) }))
    });
    Server::bind(&(Ipv6Addr::UNSPECIFIED, port).into()).serve(service).await?;
    Ok(())
}

async fn get(url: &str) -> Result<(), Failure> {
    let mut answer = Client::new().get(url.parse::<Uri>()?).await?;
    if !answer.status().is_success() {
        return Err(format!("status {}", answer.status()).into());
    }
    while let Some(chunk) = answer.body_mut().data().await {
        std::io::stdout().write_all(&chunk?)?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["serve", port, file] => serve(port.parse()?, file).await,
        ["get", url] => get(url).await,
        _ => Err("usage: files serve PORT FILE | files get URL".into()),
    }
}
