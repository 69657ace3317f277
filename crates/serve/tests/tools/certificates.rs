//! Certificates for tests, which OpenSSL makes.

use std::path::{Path, PathBuf};

use super::Temp;
use super::program::{program_named, run, skip};

/// Returns true if OpenSSL is installed. Otherwise prints a line, and fails if tests must not be
/// skipped.
pub(crate) fn have_openssl() -> bool {
    let version = program_named("openssl").arg("version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    if !is_there {
        skip("openssl is not installed");
    }
    is_there
}

/// A directory with an authority and the certificates that it has signed.
#[derive(Debug)]
pub(crate) struct TestCertificates(Temp);

impl TestCertificates {
    /// Makes an authority with the certificates of the server and of the client `alice.example`.
    pub(crate) fn new() -> Self {
        Self::of("alice.example")
    }

    /// Makes an authority with the certificates of the server and of a client.
    pub(crate) fn of(client: &str) -> Self {
        let directory = Temp::new();
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/examples/tls/certificates");
        let path = directory.path().display().to_string();
        run(&script.display().to_string(), &[&path, client]);
        Self(directory)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns `[listen.tls]` as a line that begins a configuration.
    pub(crate) fn listen(&self, rest: &str) -> String {
        let path = |name: &str| self.path(name).display().to_string();
        format!(
            "listen.tls = {{ certificate = \"{}\", key = \"{}\"{rest} }}\n",
            path("server-cert.pem"),
            path("server-key.pem")
        )
    }

    /// Returns `[listen.tls]` with an authority for clients.
    pub(crate) fn listen_with_ca(&self, rest: &str) -> String {
        let ca = self.path("ca-cert.pem");
        self.listen(&format!(", client_ca = \"{}\"{rest}", ca.display()))
    }

    /// Returns a directory for a client that trusts this authority and has the certificate of
    /// `other`.
    pub(crate) fn with_client_of(&self, other: &Self) -> Temp {
        let directory = Temp::new();
        for (from, name) in [
            (self, "ca-cert.pem"),
            (other, "client-cert.pem"),
            (other, "client-key.pem"),
        ] {
            std::fs::copy(from.path(name), directory.path().join(name)).unwrap();
        }
        directory
    }

    /// Returns a directory for a client that trusts this authority and has no certificate.
    pub(crate) fn without_client(&self) -> Temp {
        let directory = Temp::new();
        let to = directory.path().join("ca-cert.pem");
        std::fs::copy(self.path("ca-cert.pem"), to).unwrap();
        directory
    }

    /// Replaces the client's certificate by one that has expired.
    pub(crate) fn expire_client(&self) {
        self.sign_expired("client", "DNS:alice.example");
    }

    /// Replaces the server's certificate by one that has expired.
    pub(crate) fn expire_server(&self) {
        self.sign_expired("server", "DNS:localhost");
    }

    /// Replaces the certificates by those that etcd needs. Its server is also a client, and its
    /// gateway refuses a client with a common name if users are enabled.
    pub(crate) fn suit_etcd(&self) {
        self.begin_database("DNS:localhost");
        for (name, subject, uses) in [
            ("server", "/CN=localhost", "serverAuth,clientAuth"),
            ("client", "/O=weir", "clientAuth"),
        ] {
            self.openssl(&format!(
                "req -x509 -config ca.cnf -key {name}-key.pem -days 30 -out {name}-cert.pem \
                 -CA ca-cert.pem -CAkey ca-key.pem -subj {subject} \
                 -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
                 -addext extendedKeyUsage={uses} -addext basicConstraints=critical,CA:FALSE"
            ));
        }
    }

    fn sign_expired(&self, name: &str, names: &str) {
        self.begin_database(names);
        self.openssl(&format!(
            "req -new -config ca.cnf -key {name}-key.pem -subj /CN=expired -out expired.csr"
        ));
        self.openssl(&format!(
            "ca -batch -config ca.cnf -cert ca-cert.pem -keyfile ca-key.pem -in expired.csr \
             -startdate 20200101000000Z -enddate 20210101000000Z -out {name}-cert.pem -notext"
        ));
    }

    /// Writes the list of revoked certificates to `crl.pem`, with the client's certificate if it is
    /// `revoked`.
    pub(crate) fn write_revocations(&self, revoked: bool) {
        self.begin_database("DNS:alice.example");
        let with = "-config ca.cnf -cert ca-cert.pem -keyfile ca-key.pem";
        if revoked {
            self.openssl(&format!("ca {with} -revoke client-cert.pem"));
        }
        self.openssl(&format!("ca {with} -gencrl -crldays 30 -out crl.pem"));
    }

    /// Writes an empty database of the authority, for certificates with these names.
    fn begin_database(&self, names: &str) {
        let directory = self.0.path().display();
        let configuration = format!(
            "[req]\ndistinguished_name = name\n[name]\n[ca]\ndefault_ca = own\n[own]\n\
             database = {directory}/index\nserial = {directory}/serial\nnew_certs_dir = {directory}\n\
             crlnumber = {directory}/crlnumber\n\
             default_md = sha256\npolicy = any\nx509_extensions = own_names\n[any]\ncommonName = supplied\n\
             [own_names]\nsubjectAltName = {names}\nbasicConstraints = CA:FALSE\n"
        );
        std::fs::write(self.path("ca.cnf"), configuration).unwrap();
        std::fs::write(self.path("index"), "").unwrap();
        for number in ["serial", "crlnumber"] {
            std::fs::write(self.path(number), "01\n").unwrap();
        }
    }

    fn openssl(&self, arguments: &str) {
        let mut openssl = program_named("openssl");
        openssl.args(arguments.split_whitespace());
        let output = openssl.current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
