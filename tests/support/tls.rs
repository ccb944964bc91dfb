//! Certificates and keys for servers and clients, made by openssl, and curl as a client.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A certificate authority in its own directory.
pub(crate) struct Authority {
    folder: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=authority of a test",
            "-days",
            "2",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ]);
        authority
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues a key and a certificate with this serial number for 127.0.0.1, as `NAME.key` and
    /// `NAME.pem`.
    pub(crate) fn issue(&self, name: &str, serial: u32) {
        let (key, request, pem) = (
            format!("{name}.key"),
            format!("{name}.csr"),
            format!("{name}.pem"),
        );
        let extensions = self.at("extensions");
        fs::write(&extensions, "subjectAltName=IP:127.0.0.1\n").expect("our file");
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-set_serial",
            &serial.to_string(),
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-out",
            &pem,
        ]);
        self.protect(&key, 0o600);
    }

    /// Like [`Self::issue`], but the certificate has expired. Only this command of openssl can set
    /// both dates.
    pub(crate) fn issue_expired(&self, name: &str, serial: u32) {
        self.issue(name, serial);
        self.write("index.txt", "");
        self.write("serial", &format!("{serial:04}\n"));
        self.write(
            "ca.conf",
            "[ca]\ndefault_ca = test\n[test]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\n\
             default_md = sha256\npolicy = any\nx509_extensions = own\nunique_subject = no\n\
             [any]\ncommonName = supplied\n[own]\nsubjectAltName = IP:127.0.0.1\n",
        );
        let (request, pem) = (format!("{name}.csr"), format!("{name}.pem"));
        self.openssl(&[
            "ca",
            "-batch",
            "-notext",
            "-config",
            "ca.conf",
            "-cert",
            "ca.pem",
            "-keyfile",
            "ca.key",
            "-startdate",
            "20200101000000Z",
            "-enddate",
            "20200201000000Z",
            "-in",
            &request,
            "-out",
            &pem,
        ]);
    }

    /// Writes a file, such as the web configuration.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, text).expect("our file");
        self.protect(name, 0o600);
        path
    }

    pub(crate) fn protect(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), Permissions::from_mode(mode)).expect("our file");
    }

    fn openssl(&self, args: &[&str]) {
        let output = Command::new("openssl")
            .args(args)
            .current_dir(self.folder.path())
            .output()
            .expect("openssl is installed");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
    }
}

/// Sends a request with curl. Returns the status, which is 0 if there was no response, and the body
/// followed by curl's messages about the connection.
pub(crate) fn curl(url: &str, authority: &Path, args: &[&str]) -> (u16, String) {
    let output = Command::new("curl")
        .args([
            "-sSv",
            "--max-time",
            "20",
            "-w",
            "\n%{http_code}",
            "--cacert",
        ])
        .arg(authority)
        .args(args)
        .arg(url)
        .output()
        .expect("curl is installed");
    let body = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = body.rsplit_once('\n').expect("a status");
    let said = String::from_utf8_lossy(&output.stderr);
    (status.parse().expect("a number"), format!("{body}\n{said}"))
}
