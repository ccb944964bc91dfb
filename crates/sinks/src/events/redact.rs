//! Well-known secrets in the arguments of programs.

use std::mem;

/// What stands in the place of a secret.
const REDACTED: &[u8] = b"<redacted>";

/// Words in the name of an option, a variable or a header whose value is a secret.
const SECRET_WORDS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "pgpass",
    "mysql_pwd",
    "secret",
    "token",
    "apikey",
    "api-key",
    "api_key",
    "access-key",
    "access_key",
    "credential",
    "authorization",
];

/// Names that are about secrets and are none: files, numbers, switches.
const HARMLESS_ENDS: [&str; 7] = ["file", "path", "url", "stdin", "type", "name", "length"];

/// How the tokens of well-known services begin.
const TOKEN_BEGINS: [&[u8]; 10] = [
    b"ghp_",
    b"gho_",
    b"ghs_",
    b"github_pat_",
    b"glpat-",
    b"xoxb-",
    b"xoxp-",
    b"sk_live_",
    b"hvs.",
    b"eyJ",
];
/// Shorter ones are no tokens.
const TOKEN_BYTES: usize = 20;

/// Programs of which `-pVALUE` is a password.
const SHORT_PASSWORD: [&[u8]; 7] = [
    b"mysql",
    b"mysqldump",
    b"mysqladmin",
    b"mysqlimport",
    b"mariadb",
    b"mariadb-dump",
    b"sshpass",
];

/// Replaces the values of well-known secrets: of options (`--password X`, `--token=X`), variables
/// (`PGPASSWORD=X`), headers (`Authorization: X`), addresses (`https://user:X@host`), `-u user:X` of
/// curl, `-pX` of mysql, and tokens that have a form of their own. A secret without such a mark stays;
/// only "off" for arguments keeps all of them out.
pub fn redact(args: &mut [Vec<u8>]) {
    let Some((first, rest)) = args.split_first_mut() else {
        return;
    };
    let program = base(first);
    let short_password = SHORT_PASSWORD.contains(&program);
    let curl = program == b"curl";
    let mut next = Next::Plain;
    for arg in rest {
        let whole = mem::replace(&mut next, Next::Plain);
        if whole == Next::Secret && !arg.starts_with(b"-") {
            *arg = REDACTED.to_vec();
            continue;
        }
        if whole == Next::UserAndSecret {
            after_colon(arg);
            continue;
        }
        if curl && matches!(&arg[..], b"-u" | b"--user" | b"-U" | b"--proxy-user") {
            next = Next::UserAndSecret;
        } else if short_password && arg.starts_with(b"-p") {
            match arg.len() {
                // Of sshpass the value may be the next; mysql asks for it.
                2 if program == b"sshpass" => next = Next::Secret,
                2 => {}
                _ => *arg = [b"-p", REDACTED].concat(),
            }
        } else if arg.starts_with(b"-") && is_secret(arg) {
            next = Next::Secret;
        } else {
            *arg = words(arg);
        }
    }
}

/// What the argument before says of the next one.
#[derive(PartialEq)]
enum Next {
    Plain,
    Secret,
    UserAndSecret,
}

/// An argument may be a whole command line: each of its words is looked at.
fn words(arg: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(arg.len());
    let mut secret_next = false;
    // A header: all of what follows the colon.
    if let Some(at) = arg.iter().position(|byte| *byte == b':')
        && is_secret(&arg[..at])
        && !arg[..at].contains(&b' ')
    {
        out.extend_from_slice(&arg[..=at]);
        out.push(b' ');
        out.extend_from_slice(REDACTED);
        return out;
    }
    for part in arg.split_inclusive(u8::is_ascii_whitespace) {
        let end = part.iter().rposition(|byte| !byte.is_ascii_whitespace());
        let (word, blank) = part.split_at(end.map_or(0, |at| at + 1));
        if word.is_empty() {
            out.extend_from_slice(blank);
            continue;
        }
        if mem::take(&mut secret_next) && !word.starts_with(b"-") {
            out.extend_from_slice(REDACTED);
        } else {
            secret_next = word.starts_with(b"--") && is_secret(word);
            push_word(&mut out, word);
        }
        out.extend_from_slice(blank);
    }
    out
}

fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    if let Some(at) = word.iter().position(|byte| *byte == b'=')
        && is_secret(&word[..at])
        && at + 1 < word.len()
    {
        out.extend_from_slice(&word[..=at]);
        out.extend_from_slice(REDACTED);
        return;
    }
    // What stands alone, or behind the name of an option.
    let value = word.iter().rposition(|b| matches!(b, b'=' | b'\'' | b'"'));
    let (before, value) = word.split_at(value.map_or(0, |at| at + 1));
    let token = |begin: &&[u8]| value.starts_with(begin) && value.len() >= TOKEN_BYTES;
    if TOKEN_BEGINS.iter().any(token) {
        out.extend_from_slice(before);
        out.extend_from_slice(REDACTED);
        return;
    }
    match user_info(word) {
        Some((from, to)) => {
            out.extend_from_slice(&word[..from]);
            out.extend_from_slice(REDACTED);
            out.extend_from_slice(&word[to..]);
        }
        None => out.extend_from_slice(word),
    }
}

/// Where the password of `scheme://user:password@host` is.
fn user_info(word: &[u8]) -> Option<(usize, usize)> {
    let scheme = word.windows(3).position(|three| three == b"://")? + 3;
    let rest = &word[scheme..];
    let host = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#'));
    let authority = &rest[..host.unwrap_or(rest.len())];
    let at = authority.iter().rposition(|byte| *byte == b'@')?;
    let colon = authority[..at].iter().position(|byte| *byte == b':')?;
    (colon + 1 < at).then_some((scheme + colon + 1, scheme + at))
}

/// Keeps the user of `user:password`.
fn after_colon(arg: &mut Vec<u8>) {
    if let Some(at) = arg.iter().position(|byte| *byte == b':') {
        arg.truncate(at + 1);
        arg.extend_from_slice(REDACTED);
    }
}

/// Whether the name says that its value is a secret. One that holds a value already (`--x=y`) does not
/// speak of the next argument.
fn is_secret(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let harmless = HARMLESS_ENDS.iter().any(|end| name.ends_with(end));
    !harmless && !name.contains('=') && SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_redacted(line: &[&str], expected: &[&str]) {
        let mut args: Vec<Vec<u8>> = line.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        redact(&mut args);
        let shown: Vec<_> = args
            .iter()
            .map(|arg| String::from_utf8_lossy(arg))
            .collect();
        assert_eq!(shown, expected, "{line:?}");
    }

    #[test]
    fn values_of_well_known_secrets_are_replaced() {
        let r = "<redacted>";
        assert_redacted(
            &["app", "--password", "hunter2", "x"],
            &["app", "--password", r, "x"],
        );
        assert_redacted(
            &["app", "--db-password=hunter2"],
            &["app", "--db-password=<redacted>"],
        );
        assert_redacted(
            &["env", "PGPASSWORD=x", "psql"],
            &["env", "PGPASSWORD=<redacted>", "psql"],
        );
        assert_redacted(
            &["env", "AWS_SECRET_ACCESS_KEY=x/y="],
            &["env", "AWS_SECRET_ACCESS_KEY=<redacted>"],
        );
        assert_redacted(
            &["/usr/bin/mysql", "-uroot", "-phunter2"],
            &["/usr/bin/mysql", "-uroot", "-p<redacted>"],
        );
        assert_redacted(
            &["sshpass", "-p", "x", "ssh", "h"],
            &["sshpass", "-p", r, "ssh", "h"],
        );
        assert_redacted(
            &["curl", "-u", "me:x", "h"],
            &["curl", "-u", "me:<redacted>", "h"],
        );
        assert_redacted(
            &["curl", "-H", "Authorization: Bearer abc def"],
            &["curl", "-H", "Authorization: <redacted>"],
        );
        assert_redacted(
            &["git", "clone", "https://me:x@host:8080/a@b"],
            &["git", "clone", "https://me:<redacted>@host:8080/a@b"],
        );
        assert_redacted(
            &["sh", "-c", "mysql --password=x y; app --token abc  && z"],
            &[
                "sh",
                "-c",
                "mysql --password=<redacted> y; app --token <redacted>  && z",
            ],
        );
        assert_redacted(&["app", "ghp_0123456789abcdefghij"], &["app", r]);
        assert_redacted(
            &["app", "--jwt=eyJhbGciOiJIUzI1NiJ9.x.y"],
            &["app", "--jwt=<redacted>"],
        );
    }

    #[test]
    fn what_is_no_secret_stays() {
        let lines: [&[&str]; 9] = [
            &["app", "--password-file", "/run/secrets/db"],
            &["app", "--password-stdin", "user"],
            &["mkdir", "-p", "a/b"],
            &["ssh", "-p2222", "host"],
            &["curl", "https://host/x:y@z"],
            &["app", "--token", "--verbose"],
            &["app", "eyJ"],
            &["cat", "/etc/passwd"],
            &[],
        ];
        for line in lines {
            assert_redacted(line, line);
        }
        // Neither UTF-8 nor an end.
        redact(&mut [
            b"x".to_vec(),
            b"\xff--password=\xff".to_vec(),
            b"--password".to_vec(),
        ]);
    }
}
